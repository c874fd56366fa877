// For zsh's own completion system (compinit), as a file _deltop in its function path.
#include "cli/complete.h"

#include "cli/option_value.h"

#include <string.h>

// Inside '...' of a description: quotes end the word, and zsh reads [ ] : as its own.
static void described(FILE *f, const char *s) {
    for (; *s; s++) {
        if (*s == '\'')
            fputs("'\\''", f);
        else if (strchr("[]:\\", *s))
            fprintf(f, "\\%c", *s);
        else
            fputc(*s, f);
    }
}

static void option_row(FILE *f, const option_spec *s) {
    char words[512];
    offer_kind kind = complete_offer(s, words, sizeof words);
    fprintf(f, "            '%s--%s%s[", s->kind == OPT_TEXTS ? "*" : "", s->name,
            kind == OFFER_NO_VALUE ? "" : "=");
    described(f, s->help);
    fputc(']', f);
    if (kind != OFFER_NO_VALUE) {
        fputc(':', f);
        described(f, option_value_word(s));
        fputc(':', f);
    }
    if (kind == OFFER_WORDS) {
        fputc('(', f);
        described(f, words);
        fputc(')', f);
    } else if (kind == OFFER_FILES) {
        fputs("_files", f);
    } else if (kind == OFFER_FOLDERS) {
        fputs("_files -/", f);
    }
    fputs("' \\\n", f);
}

static void operand_row(FILE *f, const command *c) {
    if (c->offers) {
        fputs("            '*: : _alternative \"words:word:(", f);
        char word[128];
        for (size_t i = 0; c->offers(i, word, sizeof word); i++)
            fprintf(f, "%s%s", i ? " " : "", word);
        fprintf(f, ")\"%s'", complete_takes_paths(c) ? " \"files:file:_files\"" : "");
    } else {
        fprintf(f, "            '*: :%s'", complete_takes_paths(c) ? "_files" : " ");
    }
    fputs(" ;;\n", f);
}

void complete_zsh(FILE *f) {
    fputs("#compdef deltop\n"
          "# zsh completion for deltop " DELTOP_VERSION ", printed by: deltop help --zsh\n"
          "_deltop() {\n"
          "    local -a commands\n"
          "    local state line context\n"
          "    typeset -A opt_args\n"
          "    commands=(\n",
          f);
    for (size_t i = 0; i < n_commands; i++) {
        fprintf(f, "        '%s:", commands[i]->name);
        described(f, commands[i]->summary);
        fputs("'\n", f);
    }
    fputs("        'help:options of a command, with an example'\n"
          "    )\n"
          "    _arguments -C '(- *)--help[commands and exit codes]' \\\n"
          "        '(- *)--version[version and libraries]' '1: :->first' '*:: :->rest' && return\n"
          "    case $state in\n"
          "    first) _alternative 'commands:command:(($commands))' 'files:model:_files' "
          "&& return ;;\n"
          "    rest)\n"
          "        case $line[1] in\n",
          f);
    for (size_t i = 0; i < n_commands; i++) {
        const command *c = commands[i];
        fprintf(f, "        %s) _arguments -S \\\n", c->name);
        for (size_t k = 0; k < c->n_own; k++)
            option_row(f, &c->own[k]);
        for (size_t k = 0; k < N_SHARED; k++)
            if (c->takes >> k & 1)
                option_row(f, &options_shared()[k]);
        fputs("            '(- *)--help[all options and an example]' \\\n", f);
        operand_row(f, c);
    }
    fputs("        help) _arguments '--man[manual page]' '--bash[completion for bash]' \\\n"
          "            '--zsh[completion for zsh]' '1: :(($commands))' ;;\n"
          "        *) _files ;;\n"
          "        esac ;;\n"
          "    esac\n"
          "}\n"
          "_deltop \"$@\"\n",
          f);
}
