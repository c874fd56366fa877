// cli/options.h - the command line as typed values.
//
// Options are rows of a table: name, kind, range, where the value goes. One table holds the options
// that commands share, and a command adds its own (cli/commands.h). Options may stand anywhere,
// `--x=v` and `--x v` are the same, `--` ends them. Every mistake is one sentence that names the
// option, the value and what is allowed (ERR_USAGE). Numbers are read in the C locale (fault B90);
// NaN and infinity are never accepted (fault B89).
#ifndef DELTOP_OPTIONS_H
#define DELTOP_OPTIONS_H

#include "core/err.h"
#include "core/precision.h"

#include <stddef.h>
#include <stdint.h>

typedef enum {
    OPT_FLAG,   // bool
    OPT_INT,    // int64_t; lo <= value <= hi, "4k" = 4096, "1M" = 1048576
    OPT_REAL,   // double; lo <= value <= hi
    OPT_LIST,   // int_list: "0-3,7", ascending and without doubles; lo <= every number <= hi
    OPT_CHOICE, // int: index into choices
    OPT_TEXT,   // const char *, lent by argv; not empty
    OPT_TEXTS,  // text_list: the option may be repeated
} option_kind;

typedef struct option_spec {
    const char *name; // without the dashes
    option_kind kind;
    size_t at;           // offset of the value in its struct
    const char *value;   // word for the value in help texts: "N", "DIR"; NULL: from the kind
    const char *help;    // one sentence, no full stop
    double lo, hi;       // OPT_INT, OPT_REAL, OPT_LIST
    bool above_lo;       // OPT_REAL: lo itself is not allowed
    int64_t most;        // OPT_LIST: numbers it may hold; 0: OPTION_LIST_MOST
    const char *choices; // OPT_CHOICE: "f32|tf32|bf16|f64"; OPT_TEXT: words that shells offer
} option_spec;

enum { OPTION_LIST_MOST = 65536 };

typedef struct int_list {
    int64_t *v; // owned
    size_t n;   // 0: the option was not given, which means all
} int_list;
// True when x is on the list, or when the list is empty.
bool int_list_has(const int_list *l, int64_t x);
// ERR_USAGE when a number on the list is not below n: "--layers: there is no layer 9 (0 to 5)".
bool int_list_check(const int_list *l, int64_t n, const char *option, const char *noun, err *e);

typedef struct text_list {
    const char **v; // owned array, lent strings
    size_t n, cap;
} text_list;

// The shared options, as bits, in the order of the table. A command says which ones it takes.
enum {
    TAKES_DEVICE = 1 << 0,
    TAKES_PRECISION = 1 << 1,
    TAKES_LENGTH = 1 << 2,
    TAKES_ROWS = 1 << 3,
    TAKES_BLOCK = 1 << 4,
    TAKES_LAYERS = 1 << 5,
    TAKES_HEADS = 1 << 6,
    TAKES_ADD_BOS = 1 << 7,
    TAKES_RESET = 1 << 8,
    TAKES_TRAIN_LENGTH = 1 << 9,
    TAKES_OUT = 1 << 10,
    TAKES_JSON = 1 << 11,
    TAKES_QUIET = 1 << 12,
    TAKES_THREADS = 1 << 13,
    TAKES_SEED = 1 << 14,
    TAKES_OUTPUT = TAKES_OUT | TAKES_JSON | TAKES_QUIET,
    // Everything a command that reads documents with a model takes.
    TAKES_ALL = (1 << 15) - 1,
};
enum { N_SHARED = 15, MAX_OWN_OPTIONS = 48 };

typedef struct command command;

typedef struct options {
    const command *command;
    const char *device;   // as asked: "auto", "cpu"; what is not there was refused in parsing
    int precision;        // enum precision
    int64_t length;       // 0: not given
    int64_t rows;         // 0: all whole ones; default 1
    int64_t block;        // 0: not given
    int64_t train_length; // 0: from the config
    int64_t threads;      // 0: not given
    int64_t seed;         // default 0
    int_list layers, heads;
    bool add_bos, reset_at_bos, json, quiet, help;
    const char *out; // NULL: no folder

    const char **operand; // everything that is no option, lent by argv, in order; owned array
    size_t n_operands;
    const char **model; // the operands that are models and documents (cli/operands.h); owned arrays
    size_t n_models;
    const char **document;
    size_t n_documents;

    void *own; // the command's own struct, filled by its own table; owned
    const char *given[N_SHARED + MAX_OWN_OPTIONS]; // value as written ("" for a flag), NULL
} options;

// argv: the words behind the program's name, without the command's. On failure *o may be freed
// too. With --help nothing is required of the rest.
bool options_parse(options *o, const command *c, int argc, char *const *argv, err *e);
void options_free(options *o);

// True when the option (shared or the command's own) stood on the command line.
bool options_given(const options *o, const char *name);
// ERR_USAGE, "option --NAME: needs PARTNER", when one of the names (NULL at the end) stood on the
// command line and what it acts on is not there: an option without effect is a mistake (fault B89).
bool options_need(const options *o, const char *const *names, bool there, const char *partner,
                  err *e);
// Its value as written ("" for a flag); NULL when it did not.
const char *options_text(const options *o, const char *name);

// Index of the command's name in argv: the first word that is neither an option nor an option's
// value. -1: there is none.
int options_find_command(int argc, char *const *argv);

// "option --lenght: not known (did you mean --length?)" etc. live in the parser; the tables are
// open to help texts.
const option_spec *options_shared(void); // N_SHARED rows

// "4k" = 4096, "1M" = 1048576. False when s is no whole number or leaves int64_t.
bool options_read_int(const char *s, int64_t *out);

#endif
