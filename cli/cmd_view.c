// deltop view - the dashboard, and its frames without a terminal.
#include "cli/commands.h"
#include "cli/dash/app.h"
#include "cli/dash/export.h"
#include "cli/dash/loop.h"
#include "cli/dash/script.h"
#include "cli/dash/settings.h"
#include "cli/dash/summary.h"
#include "cli/output.h"
#include "cli/say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 24, COLS = 80, PATIENCE = 1000000 };

// The panel's picture and data into --out, named as the panel.
static bool export_panel(app *a, err *e) {
    const panel *p = panel_find((int)a->v->export);
    char png[4200], csv[4200];
    if (!p)
        return err_set(e, ERR_USAGE, "option --export: there is no panel %d", (int)a->v->export);
    if (!a->o->out)
        return err_set(e, ERR_USAGE, "option --export: --out DIR is missing");
    if (!script_wait(a, "idle", PATIENCE, e) || !output_make_folder(a->o->out, e))
        return false;
    scene x = app_scene(a);
    snprintf(png, sizeof png, "%s/%s.png", a->o->out, p->name);
    snprintf(csv, sizeof csv, "%s/%s.csv", a->o->out, p->name);
    char *command = export_command(&x, p->number, a->o->out, e);
    bool ok = command && export_files(&x, 1u << p->number, png, csv, command, e);
    if (ok && !a->o->quiet)
        printf("wrote %s\nwrote %s\n", png, csv);
    free(command);
    return ok;
}

static bool frames(app *a, err *e) {
    const view_options *v = a->v;
    if (v->live) {
        a->live.on = true;
        a->live.left = -1;
    }
    if (v->play && !script_play(a, v->play, v->frames, e))
        return false;
    if (!v->snapshot)
        return true;
    return (v->play || script_wait(a, v->wait ? v->wait : "idle", PATIENCE, e)) &&
           script_print(a, stdout, v->attrs, e);
}

// --json promises one JSON value; frames, pictures and the configuration are none.
static bool json_fits(const options *o, err *e) {
    static const char *const others[] = {"default-config", "snapshot", "play", "export"};
    for (size_t i = 0; o->json && i < sizeof others / sizeof *others; i++)
        if (options_given(o, others[i]))
            return err_set(e, ERR_USAGE, "options --json and --%s: one at a time", others[i]);
    return true;
}

static int view(const options *o, err *e) {
    const view_options *v = o->own;
    int rows = ROWS, cols = COLS, code = EXIT_DONE;
    if (!json_fits(o, e))
        return EXIT_USAGE;
    if (v->default_config) {
        settings_print_default();
        return EXIT_DONE;
    }
    if (v->snapshot && !view_read_size(v->snapshot, &rows, &cols, e)) {
        err_prefix(e, "option --snapshot");
        return EXIT_USAGE;
    }
    if (v->frames && !v->play) {
        err_set(e, ERR_USAGE, "option --frames: --play FILE is missing");
        return EXIT_USAGE;
    }
    if (!v->snapshot && (v->wait || v->attrs)) {
        err_set(e, ERR_USAGE, "option --%s: --snapshot ROWSxCOLS is missing",
                v->wait ? "wait" : "attrs");
        return EXIT_USAGE;
    }
    if (v->live && !v->snapshot && !v->play) {
        err_set(e, ERR_USAGE, "option --live: --snapshot ROWSxCOLS is missing");
        return EXIT_USAGE;
    }
    if (v->wait && v->play) {
        err_set(e, ERR_USAGE, "option --wait: the script of --play says when to wait");
        return EXIT_USAGE;
    }
    if (o->n_documents && strcmp(o->document[0], "-") == 0 && o->n_models > 1) {
        err_set(e, ERR_USAGE, "view: standard input is read once; give two models a file");
        return EXIT_USAGE;
    }
    bool batch = v->snapshot || v->play || v->export >= 0 || o->json;
    char why[256] = "";
    bool screen = !batch && loop_possible(why, sizeof why);
    if (v->tui && !screen) {
        err_set(e, ERR_USAGE, "option --tui: %s", batch ? "this call has no screen" : why);
        return EXIT_USAGE;
    }
    app a;
    bool ok = app_open(&a, o, rows, cols, e);
    if (ok && v->export >= 0)
        ok = export_panel(&a, e);
    else if (ok && (v->snapshot || v->play))
        ok = frames(&a, e);
    else if (ok && screen)
        ok = loop_run(&a, &code, e);
    else if (ok) {
        if (why[0])
            say_note("%s", why);
        ok = summary_run(&a, e);
    }
    if (a.d.exit_code)
        code = a.d.exit_code;
    if (!app_close(&a, screen ? 200 : 10000)) {
        // The worker is inside something long: nothing of it may be freed.
        if (!ok)
            say_error(e);
        fflush(stdout);
        _exit(ok ? code : say_exit_code(e->code));
    }
    return ok ? code : EXIT_FAILED;
}

const command command_view = {
    .name = "view",
    .summary = "the dashboard; also deltop MODEL... DOCUMENT",
    .usage = "MODEL... [DOCUMENT]",
    .details =
        "Shows what a model does while it reads a document: losses, effective rank of every head, "
        "eigenvalues, gates, the text itself. The screen fills as the model reads; ? lists the "
        "keys. Without a document: config, tensors and weight statistics. Up to four models are "
        "drawn together.\n"
        "Where there is no terminal the same results are printed as text. --snapshot prints one "
        "frame, --play replays keys: both give the same bytes on every run.",
    .example =
        "deltop view examples/small-deltanet examples/text_kjv.txt --length 16k\n"
        "deltop view examples/small-deltanet examples/small-deltaproduct2 examples/text_kjv.txt "
        "--length 8k --snapshot 40x120",
    .files = "view.json (with --export: the panel's picture and data)",
    .min_models = 0,
    .max_models = ANY_NUMBER,
    .min_documents = 0,
    .max_documents = 1,
    .takes = TAKES_DEVICE | TAKES_PRECISION | TAKES_LENGTH | TAKES_BLOCK | TAKES_ADD_BOS |
             TAKES_RESET | TAKES_TRAIN_LENGTH | TAKES_THREADS | TAKES_OUTPUT,
    .own = view_table,
    .n_own = N_VIEW_OPTIONS,
    .own_size = sizeof(view_options),
    .own_defaults = &view_defaults,
    .run = view,
};
