// For bash 4 and newer, with or without the bash-completion package.
#include "cli/complete.h"

// Bash cuts `--x=v` and `cuda:all` at = and :, so words are cut anew, at blanks; `read` without -r
// takes "a\ b" as one of them, with its blank.
static const char head[] =
    "# bash completion for deltop " DELTOP_VERSION ", printed by: deltop help --bash\n"
    "_deltop() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT} command= option= options= words= kind= w\n"
    "    local -a typed\n"
    "    read -a typed <<<\"$line\"\n"
    "    [[ $line == *[[:space:]] ]] && typed+=('')\n"
    "    ((${#typed[@]} > 1)) || return\n"
    "    local word=${typed[-1]} before=${typed[-2]}\n"
    "    local current=$word\n"
    "    COMPREPLY=()\n"
    "    for w in \"${typed[@]:1:${#typed[@]}-2}\"; do\n"
    "        case $w in\n"
    "        ";

static const char choose[] = ") command=$w; break ;;\n"
                             "        esac\n"
                             "    done\n"
                             "    case $word in\n"
                             "    --*=*) option=${word%%=*} current=${word#*=} ;;\n"
                             "    -*) ;;\n"
                             "    *) [[ $before == --* ]] && option=$before ;;\n"
                             "    esac\n"
                             "    case $command in\n";

static const char tail[] =
    "    esac\n"
    "    if [[ $word == -* && $word != *=* ]]; then\n"
    "        COMPREPLY=($(compgen -W \"$options --help\" -- \"$word\"))\n"
    "        return\n"
    "    fi\n"
    "    [[ -n $words ]] && COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
    "    if [[ -n $kind ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        local IFS=$'\\n'\n"
    "        COMPREPLY+=($(compgen \"$kind\" -- \"$current\"))\n"
    "    fi\n"
    "    # Where the shell cuts words at colons, only what is behind the last one is its to "
    "replace.\n"
    "    if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then\n"
    "        local done=${current%\"${current##*:}\"}\n"
    "        COMPREPLY=(\"${COMPREPLY[@]#\"$done\"}\")\n"
    "    fi\n"
    "}\n"
    "complete -F _deltop deltop\n";

static void names(FILE *f, char between) {
    for (size_t i = 0; i < n_commands; i++)
        fprintf(f, "%s%c", commands[i]->name, between);
    fputs("help", f);
}

// What is offered behind an option; flags have no row, an operand may follow them.
static void option_row(FILE *f, const option_spec *s) {
    char words[512];
    switch (complete_offer(s, words, sizeof words)) {
    case OFFER_NO_VALUE:
        return;
    case OFFER_WORDS:
        fprintf(f, "        --%s) words='%s' kind= ;;\n", s->name, words);
        return;
    case OFFER_FILES:
        fprintf(f, "        --%s) words= kind=-f ;;\n", s->name);
        return;
    case OFFER_FOLDERS:
        fprintf(f, "        --%s) words= kind=-d ;;\n", s->name);
        return;
    case OFFER_NOTHING:
        fprintf(f, "        --%s) words= kind= ;;\n", s->name);
    }
}

static void command_rows(FILE *f, const command *c) {
    fprintf(f, "    %s)\n        options='", c->name);
    for (size_t i = 0; i < c->n_own; i++)
        fprintf(f, "--%s ", c->own[i].name);
    for (size_t i = 0; i < N_SHARED; i++)
        if (c->takes >> i & 1)
            fprintf(f, "--%s ", options_shared()[i].name);
    fputs("'\n        words='", f);
    char word[128];
    for (size_t i = 0; c->offers && c->offers(i, word, sizeof word); i++)
        fprintf(f, "%s%s", i ? " " : "", word);
    fprintf(f, "' kind=%s\n        case $option in\n", complete_takes_paths(c) ? "-f" : "");
    for (size_t i = 0; i < c->n_own; i++)
        option_row(f, &c->own[i]);
    for (size_t i = 0; i < N_SHARED; i++)
        if (c->takes >> i & 1)
            option_row(f, &options_shared()[i]);
    fputs("        esac ;;\n", f);
}

void complete_bash(FILE *f) {
    fputs(head, f);
    names(f, '|');
    fputs(choose, f);
    for (size_t i = 0; i < n_commands; i++)
        command_rows(f, commands[i]);
    fputs("    help) options='--man --bash --zsh' words='", f);
    names(f, ' ');
    fputs("' ;;\n    *) options=--version kind=-f words='", f);
    names(f, ' ');
    fputs("' ;;\n", f);
    fputs(tail, f);
}
