// tests/dash_play.h - the dashboard without a terminal: one call, or a script of keys.
#ifndef DELTOP_TESTS_DASH_PLAY_H
#define DELTOP_TESTS_DASH_PLAY_H

#include "tests/run.h"

// UTF-8 and no configuration file.
extern const char *const dash_utf8[];

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define VIEW(...) view_in(0, dash_utf8, LIST(__VA_ARGS__))

// `deltop view WORDS...`; fails the test unless it ends with CODE. run_free the result.
run view_in(int code, const char *const *env, const char *const *words);
// The same with --play of a script (kept as FOLDER.play) and --frames FOLDER.
run play(int code, const char *script, const char *folder, const char *const *words);
// The text of FOLDER/NAME.txt; free it.
char *frame(const char *folder, const char *name);
// Fails the test unless PART stands in TEXT.
void holds(const char *text, const char *part);

#endif
