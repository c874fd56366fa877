#include "cli/commands.h"

#include "cli/option_value.h"
#include "core/text.h"

#include <string.h>

#define DECLARE(name) extern const command command_##name;
COMMAND_LIST(DECLARE)

#define ADDRESS(name) &command_##name,
const command *const commands[] = {COMMAND_LIST(ADDRESS)};
const size_t n_commands = sizeof commands / sizeof *commands;

const exit_code_row exit_code_table[] = {
    {"0", "done"},
    {"1", "failed: bad input, I/O, memory, a number that cannot be computed"},
    {"2", "usage: unknown option, value out of range"},
    {"3", "the device that was asked for is not there"},
    {"4",
     "a check failed: slower or wrong in compare, a wrong kernel in bench, a mismatch in parity "
     "or verify, a finding in inspect --strict, a rule in check, report or watch, anything in diff "
     "--strict"},
    {"5", "compare found nothing to compare; with --strict also: the measurements do not decide"},
    {"128+n", "ended by signal n; no partial file is left"},
    {NULL, NULL},
};

const command *command_find(const char *name) {
    for (size_t i = 0; i < n_commands; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

const command *command_nearest(const char *name) {
    size_t len = strlen(name);
    int best = len < 4 ? 1 : len < 8 ? 2 : 3;
    const command *found = NULL;
    for (size_t i = 0; i < n_commands; i++) {
        bool begins = len >= 2 && strncmp(commands[i]->name, name, len) == 0;
        int d = begins ? 0 : text_distance(name, commands[i]->name, best);
        if (d < best || (d == best && !found)) {
            best = d;
            found = commands[i];
        }
    }
    return found;
}

enum { HELP_WIDTH = 80, HELP_INDENT = 28 };

// Prints text from column `at` on, broken at spaces, further lines indented.
static void print_wrapped(FILE *f, const char *text, int at, int indent) {
    while (*text) {
        int room = HELP_WIDTH - at, n = (int)strlen(text);
        if (n > room) {
            n = room;
            while (n > 0 && text[n] != ' ')
                n--;
            if (n == 0)
                n = (int)strcspn(text, " ");
        }
        fprintf(f, "%.*s\n", n, text);
        text += n;
        while (*text == ' ')
            text++;
        if (*text)
            fprintf(f, "%*s", indent, "");
        at = indent;
    }
}

static void print_row(FILE *f, const char *left, const char *text) {
    int n = fprintf(f, "  %s", left);
    if (n >= HELP_INDENT - 1) {
        fputc('\n', f);
        n = 0;
    }
    fprintf(f, "%*s", HELP_INDENT - n, "");
    print_wrapped(f, text, HELP_INDENT, HELP_INDENT);
}

static void print_option(FILE *f, const option_spec *s) {
    char left[128];
    const char *word = option_value_word(s);
    snprintf(left, sizeof left, "--%s%s%s", s->name, word ? " " : "", word ? word : "");
    print_row(f, left, s->help);
}

// Paragraphs and lists of command lines alike: every line of TEXT on its own.
static void print_lines(FILE *f, const char *text, int indent) {
    while (text && *text) {
        char line[1024];
        size_t n = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        fprintf(f, "%*s", indent, "");
        print_wrapped(f, line, indent, indent);
        text += n + (text[n] == '\n');
    }
}

void command_help(const command *c, FILE *f) {
    fprintf(f, "deltop %s - %s\n\nUsage: deltop %s [OPTIONS] %s\n\n", c->name, c->summary, c->name,
            c->usage);
    if (c->details) {
        print_lines(f, c->details, 0);
        fputc('\n', f);
    }
    fputs("Options:\n", f);
    for (size_t i = 0; i < c->n_own; i++)
        print_option(f, &c->own[i]);
    for (size_t i = 0; i < N_SHARED; i++) {
        option_spec s = options_shared()[i];
        char help[256];
        if (!(c->takes >> i & 1))
            continue;
        if (1u << i == TAKES_OUT && c->files) {
            snprintf(help, sizeof help, "write %s to this folder; it is created when absent",
                     c->files);
            s.help = help;
        }
        print_option(f, &s);
    }
    print_row(f, "--help", "this text");
    fprintf(f, "\nExample:\n");
    // An example is copied and pasted: it is never broken.
    for (const char *x = c->example; *x;) {
        size_t n = strcspn(x, "\n");
        fprintf(f, "  %.*s\n", (int)n, x);
        x += n + (x[n] == '\n');
    }
}

void commands_overview(FILE *f) {
    fputs("deltop - looks into linear-RNN language models: what their recurrent state does\n\n"
          "Usage: deltop COMMAND [OPTIONS] MODEL... [DOCUMENT...]\n\n"
          "A MODEL is a folder with config.json and safetensors, or a .safetensors file.\n"
          "A DOCUMENT is a text file, - (standard input), .jsonl (field `text`, one\n"
          "document a line) or .npy (token ids).\n\n"
          "Commands:\n",
          f);
    for (size_t i = 0; i < n_commands; i++)
        print_row(f, commands[i]->name, commands[i]->summary);
    fputs("\nOther:\n", f);
    print_row(f, "help COMMAND", "options of a command, with an example; also COMMAND --help");
    print_row(f, "help --man", "the manual page; also --bash and --zsh: completions for shells");
    print_row(f, "--version", "version, and the libraries it was built with and runs with");
    if (n_commands)
        fprintf(f, "\nExample:\n  %.*s\n", (int)strcspn(commands[0]->example, "\n"),
                commands[0]->example);
    fputs("\nExit codes: 0 done, 1 failed, 2 usage, 3 device not there, 4 a check failed,\n"
          "5 nothing to compare, 128+n ended by signal n\n",
          f);
}
