// What a killed run left half-written.
#include "cli/report/tasks.h"

#include "core/text.h"

#include <ctype.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// "NAME.tmp.PID" (core/outfile.h), whose process is gone.
static bool is_left_over(const char *path) {
    const char *end = strrchr(path, '.');
    if (!end || end - path < 4 || strncmp(end - 4, ".tmp", 4) != 0 || !end[1])
        return false;
    for (const char *c = end + 1; *c; c++)
        if (!isdigit((unsigned char)*c))
            return false;
    long pid = strtol(end + 1, NULL, 10);
    return pid > 0 && pid != (long)getpid() && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

static int visit(const char *path, const struct stat *st, int kind, struct FTW *place) {
    (void)st, (void)place;
    if (kind == FTW_F && is_left_over(path))
        unlink(path);
    return 0;
}

bool report_sweep(const report *r, err *e) {
    enum { OPEN_FOLDERS = 16 };
    if (nftw(r->o->out, visit, OPEN_FOLDERS, FTW_PHYS) != 0 && errno == ENOMEM)
        return err_set(e, ERR_NOMEM, "out of memory: looking through %s", text_show(r->o->out));
    return true;
}
