#include "core/outfile.h"

#include "core/mem.h"
#include "core/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The temporaries that are unfinished, in static memory and without locks, so that a signal
// handler can walk them at any moment. A slot goes FREE -> FILLING -> LIVE -> FREE; only LIVE
// slots hold a name that may be read.
enum { FREE, FILLING, LIVE };
static struct {
    atomic_int state;
    pid_t owner; // a forked child must not remove its parent's files
    char path[PATH_MAX];
} slots[OUTFILE_MAX];

struct outfile {
    char *path; // the final name
    int slot;   // holds the temporary name
    FILE *f;
    bool done;
};

static int slot_claim(const char *path, err *e) {
    for (int i = 0; i < OUTFILE_MAX; i++) {
        int want = FREE;
        if (!atomic_compare_exchange_strong(&slots[i].state, &want, FILLING))
            continue;
        slots[i].owner = getpid();
        int w = snprintf(slots[i].path, sizeof slots[i].path, "%s.tmp.%ld", path, (long)getpid());
        if (w < 0 || (size_t)w >= sizeof slots[i].path) {
            atomic_store(&slots[i].state, FREE);
            err_set(e, ERR_IO, "%s: %s", text_show(path), err_system(ENAMETOOLONG));
            return -1;
        }
        // Before the file exists: a signal in between removes a name that is not there yet.
        atomic_store(&slots[i].state, LIVE);
        return i;
    }
    err_set(e, ERR_IO, "%s: %d files are being written already", text_show(path), OUTFILE_MAX);
    return -1;
}

static bool being_written(const char *temporary, int but) {
    for (int i = 0; i < OUTFILE_MAX; i++)
        if (i != but && atomic_load(&slots[i].state) == LIVE &&
            strcmp(slots[i].path, temporary) == 0)
            return true;
    return false;
}

static bool name_is_free(const char *path, err *e) {
    struct stat st;
    if (path[0] == 0)
        return err_set(e, ERR_IO, "cannot write a file without a name");
    if (stat(path, &st) != 0)
        return true; // what else is wrong with the name, open() will say
    if (S_ISDIR(st.st_mode))
        return err_set(e, ERR_IO, "%s: is a folder, cannot write a file there", text_show(path));
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_IO, "%s: is a device or pipe, only regular files are written",
                       text_show(path));
    return true;
}

static bool cannot(const outfile *o, int why, err *e) {
    return err_set(e, ERR_IO, "%s: cannot write: %s", text_show(o->path), err_system(why));
}

outfile *outfile_open(const char *path, err *e) {
    enum { FLAGS = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC };
    if (!name_is_free(path, e))
        return NULL;
    outfile *o = mem_zalloc(1, sizeof *o, "an output file", e);
    if (!o)
        return NULL;
    o->slot = -1;
    o->path = mem_strdup(path, e);
    if (!o->path || (o->slot = slot_claim(path, e)) < 0)
        goto fail;
    const char *temporary = slots[o->slot].path;
    if (being_written(temporary, o->slot)) {
        // The name belongs to the other one: let go of the slot without removing the file.
        atomic_store(&slots[o->slot].state, FREE);
        o->slot = -1;
        err_set(e, ERR_IO, "%s: is being written already", text_show(path));
        goto fail;
    }
    int fd = open(temporary, FLAGS, 0666);
    // Left by a killed process that had our number.
    if (fd < 0 && errno == EEXIST && unlink(temporary) == 0)
        fd = open(temporary, FLAGS, 0666);
    if (fd < 0) {
        cannot(o, errno, e);
        goto fail;
    }
    o->f = fdopen(fd, "wb");
    if (!o->f) {
        cannot(o, errno, e);
        close(fd);
        goto fail;
    }
    return o;
fail:
    outfile_close(o);
    return NULL;
}

bool outfile_write(outfile *o, const void *data, size_t n, err *e) {
    if (n > 0 && fwrite(data, 1, n, o->f) != n)
        return cannot(o, errno, e);
    return true;
}

FILE *outfile_stream(outfile *o) {
    return o->f;
}

const char *outfile_path(const outfile *o) {
    return o->path;
}

bool outfile_commit(outfile *o, err *e) {
    if (o->done || !o->f)
        return err_set(e, ERR_IO, "%s: is finished already", text_show(o->path));
    errno = 0;
    if (fflush(o->f) != 0)
        return cannot(o, errno, e);
    if (ferror(o->f)) // of an earlier write, whose reason is gone
        return err_set(e, ERR_IO, "%s: cannot write: an earlier write failed", text_show(o->path));
    // Some file systems do not offer fsync; that is no reason to lose the file.
    if (fsync(fileno(o->f)) != 0 && errno != EINVAL && errno != ENOTSUP)
        return cannot(o, errno, e);
    FILE *f = o->f;
    o->f = NULL;
    if (fclose(f) != 0)
        return cannot(o, errno, e);
    if (rename(slots[o->slot].path, o->path) != 0)
        return cannot(o, errno, e);
    o->done = true;
    atomic_store(&slots[o->slot].state, FREE);
    o->slot = -1;
    return true;
}

void outfile_close(outfile *o) {
    if (!o)
        return;
    if (o->f)
        fclose(o->f);
    if (o->slot >= 0) {
        unlink(slots[o->slot].path);
        atomic_store(&slots[o->slot].state, FREE);
    }
    free(o->path);
    free(o);
}

bool outfile_save(const char *path, const void *data, size_t n, err *e) {
    outfile *o = outfile_open(path, e);
    bool ok = o && outfile_write(o, data, n, e) && outfile_commit(o, e);
    outfile_close(o);
    return ok;
}

void outfile_remove_all(void) {
    int keep = errno;
    pid_t me = getpid();
    for (int i = 0; i < OUTFILE_MAX; i++)
        if (atomic_load(&slots[i].state) == LIVE && slots[i].owner == me)
            unlink(slots[i].path);
    errno = keep;
}
