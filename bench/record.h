// bench/record.h - the result of a run: rows, each with its parameters, verdict of the gate, samples
// and cost; and where it ran. The same thing in memory and in bench.json (docs/ci.md describes the
// file). Rows of other programs' measurements look the same.
#ifndef DELTOP_BENCH_RECORD_H
#define DELTOP_BENCH_RECORD_H

#include "bench/stats.h"
#include "core/err.h"

#include <jansson.h>

#define RECORD_SCHEMA "deltop-bench"
enum { RECORD_VERSION = 1 };

typedef enum {
    ROW_OK,
    ROW_WRONG,   // the gate did not pass: no time
    ROW_FAILED,  // could not be run: no time
    ROW_SKIPPED, // was not tried (no time left, no such device)
} row_status;
const char *row_status_name(row_status s);

// One way of timing: caches warm, or emptied before each sample.
typedef struct timings {
    size_t n, cap;
    double *ms; // per call
    double
        *cycles;  // per call: SM clock cycles (GPU), or processor time in units of a yardstick loop
                  // that is timed beside each sample (CPU); NaN where not known
    int *round;   // which pass over the suite it belongs to
    bool *marked; // throttled or interrupted: kept, not used
    char stop[16]; // why sampling ended: "interval", "entropy", "budget", "count"; "" not measured
} timings;
bool timings_add(timings *s, double ms, double cycles, int round, bool marked, err *e);
void timings_free(timings *s);
// Of the samples that are not marked (of all, when all are).
summary timings_summary(const timings *s);
size_t timings_marked(const timings *s);

typedef struct phase {
    char name[32];
    double ms; // median
} phase;
enum { ROW_PHASES = 8 };

typedef struct bench_row {
    char name[256];
    json_t *params;  // object; what a row is matched by, all of it. Owned
    char source[64]; // "deltop", or who measured it ("fla 0.6.0")
    char kernel[128];
    char kernel_why[256];
    row_status status;
    char why[256];                                // of everything but ROW_OK
    double error, state_error, stress, tolerance; // relative L2; NaN: not measured
    char gate[160];
    double flop, bytes, chain, items; // NaN: not known
    char item[16];
    double bytes_ms,
        flop_ms;     // what moving the bytes and multiplying take at this device's ceilings
    double floor_ms; // the larger; NaN: the ceilings are not known
    char bound[16];  // "bytes", "operations", "chain"
    timings warm, cold;
    double clock_mhz, max_clock_mhz, watt, celsius; // medians while it ran; NaN
    char throttle[64];                              // reasons seen; ""
    double load;                                    // of the machine while it ran (CPU); NaN
    double noise; // of a calibration: relative spread of run medians; NaN
    phase phase[ROW_PHASES];
    int n_phases;
    double first_ms; // the very first call: shows what warm-up keeps out; NaN
} bench_row;

typedef struct record {
    json_t *about; // program, version, date, commit, suite, seed ...: everything but rows. Owned
    bench_row *rows;
    size_t n, cap;
    char path[512]; // where it was read from, for messages; ""
} record;

void record_init(record *r);
void record_free(record *r); // an empty one is fine
bench_row *record_add(record *r,
                      err *e);         // a row with NaN where numbers go; lent until the next add
void record_drop(record *r, size_t i); // frees that row; those behind move up
void row_free(bench_row *row);
void row_clear(bench_row *row);

// All parameters in alphabetical order, "H=16 K=128 op=gdn": what rows are matched by, whatever their
// order and number of samples (faults B86, B135). free() it; NULL: no memory.
char *row_key(const bench_row *row, err *e);

// Adds the samples of every row of *from to the row of *to that has the same parameters and source (a
// case that is there twice: the second to the second), as rounds behind those that are there, and rows
// that *to has not. A row without a time does not touch one that has one, and gives way to one.
bool record_merge(record *to, const record *from, err *e);
// The turn-th (from 0) row with this key and source; NULL: none. keys: of all rows (row_keys).
const bench_row *record_find(const record *r, char *const *keys, const char *key, size_t turn);
// Keys of all rows, with their source behind; NULL: no memory. row_keys_free takes them.
char **row_keys(const record *r, err *e);
void row_keys_free(char **keys, size_t n);

// Best of the row for people and plots: the warm median in ms; NaN without.
double row_ms(const bench_row *row);

// bench/record_json.c. NULL: no memory. Reading accepts a file of this program (any minor addition of
// later versions is kept or ignored, another RECORD_VERSION refused) and, in external.c, of others.
json_t *record_json(const record *r);
bool record_read(record *r, const char *path, err *e);
// Parses an already read value; PATH is for messages.
bool record_from_json(record *r, const json_t *v, const char *path, err *e);

// bench/external.c: rows of another program's file (the peers' kit, ../peers) or of this one's, added
// to *r with their source's name.
bool record_add_external(record *r, const char *path, err *e);

#endif
