#include "core/safetensors.h"

#include "core/file.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LENGTH_BYTES = 8, SNIFF = 64 };
static const size_t HEADER_MAX = 100u * 1000 * 1000; // as in the format's reference reader
static const char METADATA[] = "__metadata__";

// What a file is that cannot be safetensors (fault B3); NULL when nothing is recognised.
static const char *recognise(const unsigned char *s, size_t n) {
    static const struct {
        const char *begin, *what;
    } kinds[] = {
        {"version https://git-lfs",
         "is a Git LFS pointer, not the weights: run `git lfs pull` in its folder"},
        {"<!doctype", "is an HTML page (a failed download?), not the weights"},
        {"<html", "is an HTML page (a failed download?), not the weights"},
        {"<?xml", "is an XML page (a failed download?), not the weights"},
        {"PK\x03\x04", "is a zip archive, as torch.save writes .bin and .pth files: save the model "
                       "as safetensors first"},
        {"GGUF", "is a GGUF file: save the model as safetensors first"},
        {"\x93NUMPY", "is a NumPy array, not safetensors"},
        {"\x89HDF", "is an HDF5 file: save the model as safetensors first"},
        {"\x1f\x8b", "is compressed with gzip: unpack it first"},
        {"{", "is JSON text, not safetensors (8 bytes of length come first)"},
    };
    size_t at = 0;
    while (at < n && (s[at] == ' ' || s[at] == '\n' || s[at] == '\r' || s[at] == '\t'))
        at++;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t m = strlen(kinds[k].begin);
        if (n - at >= m && strncasecmp((const char *)s + at, kinds[k].begin, m) == 0)
            return kinds[k].what;
    }
    if (n >= 2 && s[0] == 0x80 && s[1] >= 2 && s[1] <= 5)
        return "is a Python pickle, as old .bin and .pth files are: save the model as safetensors "
               "first";
    return NULL;
}

// Checks everything about the length field; on success *header is N.
static bool header_length(const safetensors *f, size_t *header, err *e) {
    unsigned char s[SNIFF];
    size_t n = f->bytes < SNIFF ? f->bytes : SNIFF;
    if (!file_read_at(f->fd, f->path, 0, s, n, e))
        return false;
    const char *name = text_show(f->path), *what = recognise(s, n);
    uint64_t N = 0;
    if (n >= LENGTH_BYTES)
        for (int i = LENGTH_BYTES - 1; i >= 0; i--)
            N = N << 8 | s[i];
    bool sane = n > LENGTH_BYTES && N >= 2 && N <= HEADER_MAX;
    // A true file may begin with any of the bytes above (they are its length); only when the
    // length makes no sense does the guess speak.
    if (n > LENGTH_BYTES && sane && s[LENGTH_BYTES] == '{') {
        if (N <= f->bytes - LENGTH_BYTES) {
            *header = (size_t)N;
            return true;
        }
        return err_set(e, ERR_INPUT,
                       "%s: file ends inside its header (got %zu bytes, the header alone needs "
                       "%llu)",
                       name, f->bytes, (unsigned long long)N + LENGTH_BYTES);
    }
    if (n == 0)
        return err_set(e, ERR_INPUT, "%s: file is empty", name);
    if (what)
        return err_set(e, ERR_INPUT, "%s: %s", name, what);
    if (n <= LENGTH_BYTES)
        return err_set(e, ERR_INPUT, "%s: only %zu bytes, too short for a safetensors file", name,
                       f->bytes);
    if (!sane)
        return err_set(e, ERR_INPUT,
                       "%s: not a safetensors file (its first 8 bytes would mean a header of %llu "
                       "bytes; the file has %zu, the limit is %zu)",
                       name, (unsigned long long)N, f->bytes, HEADER_MAX);
    return err_set(e, ERR_INPUT,
                   "%s: not a safetensors file (the header begins with byte 0x%02x, need '{')",
                   name, s[LENGTH_BYTES]);
}

static bool bad(const safetensors *f, const char *tensor, const char *why, err *e) {
    return err_set(e, ERR_INPUT, "%s: tensor %s: %s", text_show(f->path), text_show(tensor), why);
}

// "shape": whole numbers >= 0 whose product fits.
static bool parse_shape(const safetensors *f, tensor *t, const json_t *shape, err *e) {
    if (!json_is_array(shape))
        return err_set(e, ERR_INPUT, "%s: tensor %s: shape is %s, need an array",
                       text_show(f->path), text_show(t->name), jsonio_kind(shape));
    if (json_array_size(shape) > TENSOR_MAX_RANK)
        return err_set(e, ERR_UNSUPPORTED, "%s: tensor %s has %zu dimensions, at most %d are read",
                       text_show(f->path), text_show(t->name), json_array_size(shape),
                       TENSOR_MAX_RANK);
    t->rank = (int)json_array_size(shape);
    t->count = 1;
    bool zero = false, overflow = false;
    for (int i = 0; i < t->rank; i++) {
        const json_t *side = json_array_get(shape, (size_t)i);
        t->dims[i] = json_integer_value(side);
        if (!json_is_integer(side) || t->dims[i] < 0) {
            char shown[96];
            return err_set(
                e, ERR_INPUT, "%s: tensor %s: shape holds %s, need whole numbers of 0 or more",
                text_show(f->path), text_show(t->name), jsonio_show(side, shown, sizeof shown));
        }
        zero |= t->dims[i] == 0;
        overflow |= t->dims[i] != 0 && __builtin_mul_overflow(t->count, t->dims[i], &t->count);
    }
    // Sizes are multiplied without the zeros first: [huge, huge, 0] is as wrong as [huge, huge].
    int64_t bytes;
    if (overflow || __builtin_mul_overflow(t->count, (int64_t)8, &bytes)) {
        char text[256];
        return err_set(e, ERR_INPUT, "%s: tensor %s: shape %s overflows", text_show(f->path),
                       text_show(t->name), tensor_shape_text(t, text, sizeof text));
    }
    if (zero)
        t->count = 0;
    return true;
}

// Offsets become t->bytes and, for now, an offset in t->data.
static bool parse_offsets(const safetensors *f, tensor *t, const json_t *pair, err *e) {
    const json_t *b = json_array_get(pair, 0), *z = json_array_get(pair, 1);
    if (!json_is_array(pair) || json_array_size(pair) != 2 || !json_is_integer(b) ||
        !json_is_integer(z) || json_integer_value(b) < 0 || json_integer_value(z) < 0)
        return bad(f, t->name, "data_offsets must be two whole numbers of 0 or more", e);
    int64_t begin = json_integer_value(b), end = json_integer_value(z);
    if (begin > end)
        return err_set(e, ERR_INPUT, "%s: tensor %s: data_offsets [%lld, %lld] are reversed",
                       text_show(f->path), text_show(t->name), (long long)begin, (long long)end);
    t->bytes = (size_t)(end - begin);
    t->data = (const void *)(uintptr_t)begin;
    size_t size = dtype_size(t->type), need = (size_t)t->count * size;
    char text[256];
    if (size && need != t->bytes)
        return err_set(e, ERR_INPUT,
                       "%s: tensor %s: %s %s needs %zu bytes, but data_offsets [%lld, %lld] hold "
                       "%zu",
                       text_show(f->path), text_show(t->name), t->type_name,
                       tensor_shape_text(t, text, sizeof text), need, (long long)begin,
                       (long long)end, t->bytes);
    return true;
}

static bool parse_tensor(const safetensors *f, tensor *t, const char *name, const json_t *v,
                         err *e) {
    t->name = name;
    if (!json_is_object(v))
        return err_set(e, ERR_INPUT, "%s: tensor %s is %s in the header, need an object",
                       text_show(f->path), text_show(name), jsonio_kind(v));
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    for (int k = 0; k < 3; k++)
        if (!json_object_get(v, keys[k]))
            return err_set(e, ERR_INPUT, "%s: tensor %s: no \"%s\" in the header",
                           text_show(f->path), text_show(name), keys[k]);
    const json_t *type = json_object_get(v, "dtype");
    if (!json_is_string(type))
        return err_set(e, ERR_INPUT, "%s: tensor %s: dtype is %s, need a string",
                       text_show(f->path), text_show(name), jsonio_kind(type));
    t->type_name = json_string_value(type);
    t->type = dtype_from_name(t->type_name);
    return parse_shape(f, t, json_object_get(v, "shape"), e) &&
           parse_offsets(f, t, json_object_get(v, "data_offsets"), e);
}

static bool check_metadata(const safetensors *f, json_t *m, err *e) {
    if (!m)
        return true;
    if (!json_is_object(m))
        return err_set(e, ERR_INPUT, "%s: %s is %s, need an object of strings", text_show(f->path),
                       METADATA, jsonio_kind(m));
    for (void *it = json_object_iter(m); it; it = json_object_iter_next(m, it))
        if (!json_is_string(json_object_iter_value(it)))
            return err_set(e, ERR_INPUT, "%s: %s: the value of \"%s\" is %s, need a string",
                           text_show(f->path), METADATA, text_show(json_object_iter_key(it)),
                           jsonio_kind(json_object_iter_value(it)));
    return true;
}

static size_t begin_of(const tensor *t) {
    return (size_t)(uintptr_t)t->data;
}

static int by_place(const void *a, const void *b) {
    const tensor *x = *(const tensor *const *)a, *y = *(const tensor *const *)b;
    size_t xb = begin_of(x), yb = begin_of(y);
    if (xb != yb)
        return xb < yb ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); // empty ones first
}

// Tensors must tile [0, data): no overlap, no hole, nothing behind the last one, nothing missing.
static bool check_tiling(const safetensors *f, size_t header, err *e) {
    const tensor **order = mem_alloc(f->n, sizeof *order, "the order of tensors", e);
    if (!order)
        return false;
    for (size_t i = 0; i < f->n; i++)
        order[i] = &f->tensors[i];
    if (f->n > 1)
        qsort(order, f->n, sizeof *order, by_place);
    size_t at = 0;
    bool ok = true;
    const char *file = text_show(f->path);
    for (size_t i = 0; ok && i < f->n; i++) {
        const tensor *t = order[i];
        if (begin_of(t) < at)
            ok = err_set(e, ERR_INPUT, "%s: tensors %s and %s overlap in the file", file,
                         text_show(order[i - 1]->name), text_show(t->name));
        else if (begin_of(t) > at)
            ok = err_set(e, ERR_INPUT, "%s: a hole of %zu bytes before tensor %s", file,
                         begin_of(t) - at, text_show(t->name));
        at = begin_of(t) + t->bytes;
    }
    free(order);
    size_t begin = LENGTH_BYTES + header, need = begin + at;
    if (ok && f->bytes < need)
        ok = err_set(e, ERR_INPUT,
                     "%s: file is %zu bytes shorter than its header says (got %zu, need %zu)", file,
                     need - f->bytes, f->bytes, need);
    if (ok && f->bytes > need)
        ok = err_set(e, ERR_INPUT, "%s: %zu bytes after the last tensor (got %zu, need %zu)", file,
                     f->bytes - need, f->bytes, need);
    return ok;
}

static bool parse_header(safetensors *f, size_t header, int file, err *e) {
    char *text = mem_alloc(header + 1, 1, "a checkpoint's header", e);
    if (!text)
        return false;
    bool ok = file_read_at(f->fd, f->path, LENGTH_BYTES, text, header, e);
    text[header] = 0;
    if (ok)
        f->root = jsonio_parse(text, header, f->path, "its header", e);
    free(text);
    if (!f->root)
        return false;
    json_t *meta = json_object_get(f->root, METADATA);
    size_t n = json_object_size(f->root) - (meta != NULL);
    if (!check_metadata(f, meta, e) ||
        !(f->tensors = mem_zalloc(n, sizeof *f->tensors, "the list of tensors", e)))
        return false;
    for (void *it = json_object_iter(f->root); it; it = json_object_iter_next(f->root, it)) {
        const char *name = json_object_iter_key(it);
        if (strcmp(name, METADATA) == 0)
            continue;
        tensor *t = &f->tensors[f->n];
        t->file = file;
        if (!parse_tensor(f, t, name, json_object_iter_value(it), e))
            return false;
        f->n++;
    }
    return check_tiling(f, header, e);
}

bool safetensors_open(const char *path, int file, safetensors *f, err *e) {
    size_t header = 0;
    memset(f, 0, sizeof *f);
    int fd = file_open(path, &f->bytes, e);
    if (fd < 0)
        return false;
    f->path = mem_strdup(path, e);
    if (!f->path) {
        close(fd);
        return false;
    }
    f->fd = fd;
    if (!header_length(f, &header, e) || !parse_header(f, header, file, e))
        goto fail;
    f->map = mmap(NULL, f->bytes, PROT_READ, MAP_PRIVATE, f->fd, 0);
    if (f->map == MAP_FAILED) {
        f->map = NULL;
        err_set(e, ERR_IO, "%s: cannot map %zu bytes: %s", text_show(path), f->bytes,
                err_system(errno));
        goto fail;
    }
    for (size_t i = 0; i < f->n; i++)
        f->tensors[i].data =
            (const char *)f->map + LENGTH_BYTES + header + begin_of(&f->tensors[i]);
    return true;
fail:
    safetensors_close(f);
    return false;
}

void safetensors_close(safetensors *f) {
    if (f->map)
        munmap(f->map, f->bytes);
    if (f->path) // then fd is open, and only then
        close(f->fd);
    json_decref(f->root);
    free(f->tensors);
    free(f->path);
    memset(f, 0, sizeof *f);
}

json_t *safetensors_metadata(const safetensors *f) {
    return json_object_get(f->root, METADATA);
}

bool safetensors_still_whole(const safetensors *f, err *e) {
    struct stat st;
    if (fstat(f->fd, &st) != 0)
        return err_set(e, ERR_IO, "%s: %s", text_show(f->path), err_system(errno));
    if ((size_t)st.st_size != f->bytes)
        return err_set(e, ERR_IO, "%s: file changed while it was in use (had %zu bytes, has %lld)",
                       text_show(f->path), f->bytes, (long long)st.st_size);
    return true;
}
