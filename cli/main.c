// The program's entry: finds the command, reads its options, runs it, turns the outcome into an
// exit code.
#include "cli/commands.h"
#include "cli/complete.h"
#include "cli/manual.h"
#include "cli/operands.h"
#include "cli/output.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "cli/version.h"
#include "cli/waiting.h"
#include "core/outfile.h"
#include "core/text.h"

#include <locale.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int unknown_command(const char *word, err *e) {
    const command *near = command_nearest(word);
    if (near)
        err_set(e, ERR_USAGE, "%s: no such command and no such file; did you mean deltop %s?",
                text_show(word), near->name);
    else
        err_set(e, ERR_USAGE, "%s: no such command and no such file; deltop --help lists commands",
                text_show(word));
    return EXIT_USAGE;
}

// The tables in other forms than help texts.
static const struct {
    const char *option;
    void (*write)(FILE *f);
} forms[] = {{"--man", manual_write}, {"--bash", complete_bash}, {"--zsh", complete_zsh}};

static int help(int argc, char **argv, err *e) {
    if (argc == 0) {
        commands_overview(stdout);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (int k = 0; k < argc; k++) {
            if (strcmp(argv[k], forms[i].option) != 0)
                continue;
            if (argc > 1)
                return err_set(e, ERR_USAGE, "help %s: stands alone, %s does not go with it",
                               forms[i].option, text_show(argv[k == 0])),
                       EXIT_USAGE;
            forms[i].write(stdout);
            return EXIT_DONE;
        }
    for (int k = 0; k < argc; k++)
        if (strcmp(argv[k], "--json") == 0)
            return err_set(e, ERR_USAGE, "help is text: --json does not go with it"), EXIT_USAGE;
    const command *c = command_find(argv[0]);
    if (!c)
        return unknown_command(argv[0], e);
    command_help(c, stdout);
    return EXIT_DONE;
}

static int run_command(const command *c, int argc, char **argv, err *e) {
    options o;
    int code = EXIT_FAILED;
    if (!options_parse(&o, c, argc, argv, e))
        goto done;
    if (o.help) {
        command_help(c, stdout);
        code = EXIT_DONE;
        goto done;
    }
    say_set_quiet(o.quiet);
    if (o.threads)
        omp_set_num_threads((int)o.threads);
    if (operands_split(&o, e))
        code = c->run(&o, e);
done:
    options_free(&o);
    return code;
}

// The short options that such programs are known for.
static void spell_out(int argc, char **argv) {
    static const struct {
        const char *brief;
        char whole[16];
    } known[] = {
        {"-C", "--no-color"}, {"-U", "--ascii"}, {"-M", "--no-mouse"}, {"-r", "--session"}};
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (strcmp(argv[i], known[k].brief) == 0)
                argv[i] = (char *)known[k].whole;
}

// `deltop MODEL... DOCUMENT` is `deltop view MODEL... DOCUMENT`.
static bool is_view(const char *word) {
    struct stat st;
    return !command_find(word) && strcmp(word, "help") != 0 &&
           (strcmp(word, "-") == 0 || stat(word, &st) == 0);
}

static int run_view(int argc, char **argv, err *e) {
    spell_out(argc, argv);
    return run_command(command_find("view"), argc, argv, e);
}

// argv: the words behind the program's name.
static int dispatch(int argc, char **argv, err *e) {
    int at = options_find_command(argc, argv);
    const char *first = argc > 0 ? argv[0] : NULL;
    if (!first || (at < 0 && (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)))
        return help(0, argv, e);
    if (strcmp(first, "--version") == 0) {
        if (argc > 1)
            return err_set(e, ERR_USAGE, "--version stands alone"), EXIT_USAGE;
        version_print(stdout);
        return EXIT_DONE;
    }
    // A session and --default-config need no operand.
    if (strcmp(first, "-r") == 0 || strcmp(first, "--session") == 0 ||
        strcmp(first, "--default-config") == 0 || (at >= 0 && is_view(argv[at])))
        return run_view(argc, argv, e);
    if (at < 0)
        return err_set(e, ERR_USAGE, "%s: a command is missing; deltop --help lists them",
                       text_show(first)),
               EXIT_USAGE;
    const char *word = argv[at];
    // The command's name leaves the line; what is around it is for its parser.
    for (int i = at; i + 1 < argc; i++)
        argv[i] = argv[i + 1];
    argc--;
    if (strcmp(word, "help") == 0)
        return help(argc, argv, e);
    const command *c = command_find(word);
    if (c && strcmp(c->name, "view") == 0)
        return run_view(argc, argv, e);
    return c ? run_command(c, argc, argv, e) : unknown_command(word, e);
}

int main(int argc, char **argv) {
    waiting_politely(argv);
    signals_guard_descriptors();
    signals_at_end(outfile_remove_all);
    signals_install();
    // Characters as the user's terminal has them; numbers always in the C locale (fault B90).
    setlocale(LC_CTYPE, "");

    err e;
    err_clear(&e);
    int code = dispatch(argc > 0 ? argc - 1 : 0, argv + (argc > 0), &e);
    if (signals_caught())
        signals_end(signals_caught());
    if (e.code != ERR_NONE)
        code = say_exit_code(e.code);
    // A reader that has gone away (`deltop ... | head`) is no failure worth a message. SIGPIPE ends
    // the process long before; this is for callers who ignore that signal.
    err out;
    err_clear(&out);
    bool gone = false, arrived = output_flush(&gone, &out);
    if (gone)
        return EXIT_SIGNAL + SIGPIPE;
    if (e.code != ERR_NONE)
        say_error(&e);
    else if (!arrived)
        say_error(&out);
    if (!arrived && code == EXIT_DONE)
        code = EXIT_FAILED;
    outfile_remove_all();
    return code;
}
