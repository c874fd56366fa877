#include "cli/manual.h"

#include "cli/commands.h"
#include "cli/option_value.h"

#include <string.h>

// One character: hyphens are to be copied, and these others mean something to roff.
static void character(FILE *f, char c) {
    static const struct {
        char c;
        const char *roff;
    } known[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"}, {'`', "\\(ga"},
                 {'^', "\\(ha"}, {'~', "\\(ti"}, {'"', "\\(dq"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (c == known[i].c) {
            fputs(known[i].roff, f);
            return;
        }
    fputc(c, f);
}

// n bytes of S on one line of the source.
static void roff(FILE *f, const char *s, size_t n) {
    if (n && (*s == '.' || *s == '\''))
        fputs("\\&", f); // else a request
    for (size_t i = 0; i < n && s[i]; i++)
        character(f, s[i]);
}

// n bytes of running text: a new line of the source at a blank, as roff programs like them, and
// after a full stop, which they set apart.
static void running(FILE *f, const char *s, size_t n) {
    enum { COLUMNS = 72 };
    size_t column = 0;
    bool sentence = false; // one has ended
    for (size_t i = 0; i < n && s[i];) {
        size_t word = strcspn(s + i, " \n");
        word = word < n - i ? word : n - i;
        if (column && (column + 1 + word > COLUMNS || sentence)) {
            fputc('\n', f);
            column = 0;
        }
        if (column)
            fputc(' ', f);
        if (column == 0)
            roff(f, s + i, word);
        else
            for (size_t k = 0; k < word; k++)
                character(f, s[i + k]);
        bool dots = word >= 3 && strncmp(s + i + word - 3, "...", 3) == 0;
        sentence = !dots && word && s[i + word - 1] == '.';
        if (dots)
            fputs("\\&", f); // no end of a sentence
        column += word + 1;
        i += word;
        while (i < n && s[i] == ' ')
            i++;
    }
}

static void text(FILE *f, const char *s) {
    running(f, s, strlen(s));
    fputc('\n', f);
}

// Every line of S as a paragraph.
static void paragraphs(FILE *f, const char *s) {
    for (; s && *s; s += strcspn(s, "\n"), s += *s == '\n') {
        fputs(".PP\n", f);
        running(f, s, strcspn(s, "\n"));
        fputc('\n', f);
    }
}

static void examples(FILE *f, const char *s) {
    fputs(".PP\nExample:\n.PP\n.nf\n", f);
    for (; *s; s += strcspn(s, "\n"), s += *s == '\n') {
        fputs(".RS 4\n", f);
        roff(f, s, strcspn(s, "\n"));
        fputs("\n.RE\n", f);
    }
    fputs(".fi\n", f);
}

static void option_row(FILE *f, const option_spec *s, const char *help) {
    const char *word = option_value_word(s);
    fputs(".TP\n.B \\-\\-", f);
    roff(f, s->name, strlen(s->name));
    if (word) {
        fputs(" \\fI", f);
        roff(f, word, strlen(word));
        fputs("\\fR", f);
    }
    fputc('\n', f);
    text(f, help);
}

static void command_section(FILE *f, const command *c) {
    fprintf(f, ".SS %s\n.B deltop %s\n[\\fIOPTIONS\\fR]\n", c->name, c->name);
    if (c->usage[0])
        text(f, c->usage);
    fputs(".PP\nIn short: ", f);
    running(f, c->summary, strlen(c->summary));
    fputs(".\n", f);
    paragraphs(f, c->details);
    if (c->files) {
        fputs(".PP\nWith\n.BR \\-\\-out :\n", f);
        running(f, c->files, strlen(c->files));
        fputs(".\n", f);
    }
    for (size_t i = 0; i < c->n_own; i++)
        option_row(f, &c->own[i], c->own[i].help);
    bool any = false;
    for (size_t i = 0; i < N_SHARED; i++) {
        if (!(c->takes >> i & 1))
            continue;
        fputs(any ? ",\n.B \\-\\-" : ".PP\nAlso, as explained under SHARED OPTIONS:\n.B \\-\\-", f);
        roff(f, options_shared()[i].name, strlen(options_shared()[i].name));
        any = true;
    }
    fputs(any ? ".\n" : "", f);
    examples(f, c->example);
}

static const struct {
    const char *name, *what;
} environment[] = {
    {"DELTOP_CUDA_SO", "the CUDA backend; only this file is tried"},
    {"DELTOP_CUDA_TRACE", "1: where the time of a GPU went, on standard error"},
    {"DELTOP_CONFIG", "settings of the dashboard, instead of the file below"},
    {"OMP_NUM_THREADS", "threads on the CPU where --threads is not given"},
    {"NO_COLOR", "set and not empty: no colours"},
    {"TMPDIR", "temporary folders, instead of /tmp"},
};

void manual_write(FILE *f) {
    fputs(".\\\" Printed by: deltop help --man\n"
          ".TH DELTOP 1 " DELTOP_DATE " \"deltop " DELTOP_VERSION "\" \"User Commands\"\n"
          ".SH NAME\ndeltop \\- looks into linear\\-RNN language models\n"
          ".SH SYNOPSIS\n.B deltop\n.I COMMAND\n[\\fIOPTIONS\\fR]\n\\fIMODEL\\fR...\\&\n"
          "[\\fIDOCUMENT\\fR...]\n.br\n.B deltop\n\\fIMODEL\\fR...\\&\n.I DOCUMENT\n.br\n"
          ".B deltop help\n[\\fICOMMAND\\fR |\n.B \\-\\-man\n|\n.B \\-\\-bash\n|\n"
          ".BR \\-\\-zsh ]\n.br\n.B deltop \\-\\-version\n"
          ".SH DESCRIPTION\n",
          f);
    text(f,
         "Loads a trained checkpoint as it lies on disk, runs it over a long document, and shows "
         "what the recurrent state does: loss far beyond the training length, effective rank of "
         "every head at every token, eigenvalues of transition products, kernel throughput.");
    paragraphs(f,
               "A MODEL is a folder with config.json and safetensors, or a .safetensors file. A "
               "DOCUMENT is a text file, - (standard input), .jsonl (field text, one document a "
               "line) or .npy (token ids). Without a command the dashboard opens.\n"
               "Options may stand anywhere, --x=v and --x v are the same, and -- ends them. In "
               "numbers k is 1024 and M 1048576. Standard output carries results, standard error "
               "everything else. Files appear whole or not at all.");
    fputs(".SH COMMANDS\n", f);
    for (size_t i = 0; i < n_commands; i++)
        command_section(f, commands[i]);
    fputs(".SH SHARED OPTIONS\n", f);
    for (size_t i = 0; i < N_SHARED; i++)
        option_row(f, &options_shared()[i], options_shared()[i].help);
    fputs(".SH EXIT STATUS\n", f);
    for (const exit_code_row *r = exit_code_table; r->code; r++) {
        fprintf(f, ".TP\n.B %s\n", r->code);
        text(f, r->meaning);
    }
    fputs(".SH ENVIRONMENT\n", f);
    for (size_t i = 0; i < sizeof environment / sizeof *environment; i++) {
        fprintf(f, ".TP\n.B %s\n", environment[i].name);
        text(f, environment[i].what);
    }
    fputs(".SH FILES\n.TP\n.I \\(ti/.config/deltop/config.ini\nsettings of the dashboard "
          "(below $XDG_CONFIG_HOME where that is set)\n",
          f);
}
