// Commands that write: pictures, data, sessions, key logs, command lines.
#include "cli/dash/cmd.h"
#include "cli/dash/export.h"
#include "cli/dash/panel.h"
#include "cli/dash/session_file.h"
#include "cli/dash/settings.h"
#include "core/file.h"
#include "core/outfile.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Pictures and data of `which`, numbered.
static bool write_numbered(dash *d, const scene *x, unsigned which, const char *stem, int panel,
                           err *e) {
    char png[4200], csv[4200];
    char *path = export_number(d->look.export_dir, stem, e);
    if (!path)
        return false;
    // The folder that the command would make has the same name as the files.
    char *command = export_command(x, panel, path, e);
    snprintf(png, sizeof png, "%s.png", path);
    snprintf(csv, sizeof csv, "%s.csv", path);
    bool ok = command && export_files(x, which, png, csv, command, e);
    if (ok)
        dash_say(d, ' ', "wrote %s.png and .csv; again: %s", text_show(path), command);
    else
        export_unclaim(path);
    free(command);
    free(path);
    return ok;
}

static bool png(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest;
    const panel *p = panel_find(d->focus);
    return p && write_numbered(d, x, 1u << p->number, p->name, p->number, e);
}

static bool screen_png(dash *d, const scene *x, const char *rest, err *e) {
    unsigned which = 0;
    (void)rest;
    for (int p = 0; p < PANELS; p++)
        which |= x->l.panel[p].h ? 1u << p : 0;
    return write_numbered(d, x, which, "screen", -1, e);
}

static bool data(dash *d, const scene *x, const char *rest, err *e) {
    const panel *p = panel_find(d->focus);
    char csv[4200], npy[4200];
    if (!p)
        return true;
    if (*rest) {
        if (!export_data(x, p->number, rest, e))
            return false;
        dash_say(d, ' ', "wrote %s", text_show(rest));
        return true;
    }
    char *path = export_number(d->look.export_dir, p->name, e);
    if (!path)
        return false;
    snprintf(csv, sizeof csv, "%s.csv", path);
    snprintf(npy, sizeof npy, "%s.npy", path);
    bool ok = export_data(x, p->number, csv, e);
    if (ok && !export_data(x, p->number, npy, e)) {
        unlink(csv); // both or none
        ok = false;
    }
    export_unclaim(path);
    if (ok)
        dash_say(d, ' ', "wrote %s.csv and .npy", text_show(path));
    free(path);
    return ok;
}

static bool yank(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest;
    char *command = export_command(x, d->focus, NULL, e);
    if (!command)
        return false;
    if (!d->clip.agreed) {
        dash_say(d, ' ', "%s   (Y once more also hands it to the terminal's clipboard, OSC 52)",
                 command);
        d->clip.agreed = true;
    } else {
        snprintf(d->clip.text, sizeof d->clip.text, "%s", command);
        dash_say(d, ' ', "copied: %s", command);
    }
    free(command);
    return true;
}

static bool export_dir(dash *d, const scene *x, const char *rest, err *e) {
    (void)x;
    return settings_set(d, "export", rest, e);
}

static bool save(dash *d, const scene *x, const char *rest, err *e) {
    char path[4200];
    if (!session_path(rest, path, sizeof path, e) || !session_save(d, x->text, path, e))
        return false;
    dash_say(d, ' ', "session saved: deltop view -r %s", text_show(*rest ? rest : "last"));
    return true;
}

static bool keylog(dash *d, const scene *x, const char *rest, err *e) {
    char path[4200];
    (void)x;
    if (*rest) {
        snprintf(path, sizeof path, "%s", rest);
    } else {
        char *free_name = export_number(d->look.export_dir, "keys", e);
        if (!free_name)
            return false;
        export_unclaim(free_name);
        snprintf(path, sizeof path, "%s.play", free_name);
        free(free_name);
    }
    // The key that asked for the log is not part of it.
    size_t n = d->keys.n;
    if (n >= 7 && strcmp(d->keys.text + n - 7, "key ^D\n") == 0)
        n -= 7;
    outfile *o = outfile_open(path, e);
    if (!o)
        return false;
    fprintf(outfile_stream(o),
            "# deltop view ... --play FILE; waits make frames the same each time\n"
            "wait idle\n%.*s",
            (int)n, d->keys.text ? d->keys.text : "");
    bool ok = outfile_commit(o, e);
    outfile_close(o);
    if (ok)
        dash_say(d, ' ', "keys saved: --play %s", text_show(path));
    return ok;
}

const cmd cmd_outs[] = {
    {"png", "", COMPLETE_NONE, png},
    {"screen-png", "", COMPLETE_NONE, screen_png},
    {"data", "FILE", COMPLETE_FILE, data},
    {"yank", "", COMPLETE_NONE, yank},
    {"export", "DIR", COMPLETE_FILE, export_dir},
    {"save", "NAME", COMPLETE_FILE, save},
    {"session", "NAME", COMPLETE_NONE, save},
    {"keylog", "FILE", COMPLETE_FILE, keylog},
};
const size_t n_cmd_outs = sizeof cmd_outs / sizeof *cmd_outs;
