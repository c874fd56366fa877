#include "core/npy.h"

#include "core/dtype.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/outfile.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *code, *name;
    size_t size;
} types[] = {
    [NPY_F8] = {"<f8", "float64", 8},       [NPY_F4] = {"<f4", "float32", 4},
    [NPY_F2] = {"<f2", "float16", 2},       [NPY_I8] = {"<i8", "int64", 8},
    [NPY_I4] = {"<i4", "int32", 4},         [NPY_I2] = {"<i2", "int16", 2},
    [NPY_I1] = {"|i1", "int8", 1},          [NPY_U8] = {"<u8", "uint64", 8},
    [NPY_U4] = {"<u4", "uint32", 4},        [NPY_U2] = {"<u2", "uint16", 2},
    [NPY_U1] = {"|u1", "uint8", 1},         [NPY_B1] = {"|b1", "bool", 1},
    [NPY_C16] = {"<c16", "complex128", 16},
};
enum { TYPES = sizeof types / sizeof *types, HEADER_MAX = 1 << 20, PREFIX = 8, ALIGN = 64 };
static const char MAGIC[] = "\x93NUMPY";

size_t npy_type_size(npy_type t) {
    return types[t].size;
}

const char *npy_type_name(npy_type t) {
    return types[t].name;
}

void npy_free(npy *a) {
    free(a->data);
    free(a->path);
    memset(a, 0, sizeof *a);
}

// The header is a Python literal; this reads the part of that language that NumPy writes.
typedef struct scan {
    const char *p, *end;
    const char *path;
    err *e;
} scan;

static bool header_error(const scan *s, const char *why) {
    return err_set(s->e, ERR_INPUT, "%s: bad .npy header: %s", text_show(s->path), why);
}

static void skip(scan *s) {
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r'))
        s->p++;
}

static bool take(scan *s, char c) {
    skip(s);
    if (s->p < s->end && *s->p == c) {
        s->p++;
        return true;
    }
    return false;
}

static bool take_word(scan *s, const char *word) {
    size_t n = strlen(word);
    skip(s);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return false;
    s->p += n;
    return true;
}

static bool take_string(scan *s, char *buf, size_t size) {
    skip(s);
    if (s->p == s->end || (*s->p != '\'' && *s->p != '"'))
        return false;
    const char *close = memchr(s->p + 1, *s->p, (size_t)(s->end - s->p - 1));
    if (!close || (size_t)(close - s->p) > size)
        return false;
    size_t n = (size_t)(close - s->p) - 1;
    memcpy(buf, s->p + 1, n);
    buf[n] = 0;
    s->p = close + 1;
    return true;
}

static bool read_descr(scan *s, npy *a) {
    char code[32];
    skip(s);
    if (s->p < s->end && *s->p == '[')
        return err_set(s->e, ERR_UNSUPPORTED, "%s: holds structures, need plain numbers",
                       text_show(s->path));
    if (!take_string(s, code, sizeof code))
        return header_error(s, "'descr' is not a type name");
    if (code[0] == '>' && code[1] && code[2] != '1')
        return err_set(s->e, ERR_UNSUPPORTED,
                       "%s: holds big-endian numbers ('%s'), need little-endian",
                       text_show(s->path), text_show(code));
    for (int t = 0; t < (int)TYPES; t++)
        if (strcmp(code + strcspn(code, "fiubc"), types[t].code + 1) == 0 &&
            strchr("<|=>", code[0])) {
            a->type = (npy_type)t;
            return true;
        }
    return err_set(s->e, ERR_UNSUPPORTED, "%s: holds elements of type '%s', which is not read",
                   text_show(s->path), text_show(code));
}

static bool read_shape(scan *s, npy *a) {
    if (!take(s, '('))
        return header_error(s, "'shape' is not a tuple");
    a->rank = 0;
    while (!take(s, ')')) {
        if (a->rank == NPY_MAX_RANK)
            return err_set(s->e, ERR_UNSUPPORTED, "%s: more than %d dimensions", text_show(s->path),
                           NPY_MAX_RANK);
        int64_t side = 0;
        const char *first = (skip(s), s->p);
        for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
            if (__builtin_mul_overflow(side, (int64_t)10, &side) ||
                __builtin_add_overflow(side, (int64_t)(*s->p - '0'), &side))
                return header_error(s, "'shape' overflows");
        if (s->p == first)
            return header_error(s, "'shape' holds something that is no whole number");
        take(s, 'L'); // Python 2 wrote its long integers so
        a->dims[a->rank++] = side;
        if (!take(s, ',')) {
            if (!take(s, ')'))
                return header_error(s, "'shape' is not closed");
            break;
        }
    }
    return true;
}

static bool parse_dict(scan *s, npy *a) {
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    int seen = 0;
    bool fortran = false;
    char key[32];
    if (!take(s, '{'))
        return header_error(s, "it does not begin with '{'");
    while (!take(s, '}')) {
        if (!take_string(s, key, sizeof key) || !take(s, ':'))
            return header_error(s, "a key is not what it should be");
        int which = strcmp(key, "descr") == 0           ? DESCR
                    : strcmp(key, "fortran_order") == 0 ? ORDER
                    : strcmp(key, "shape") == 0         ? SHAPE
                                                        : 0;
        if (which == 0 || (seen & which))
            return err_set(s->e, ERR_INPUT, "%s: bad .npy header: key '%s' %s", text_show(s->path),
                           text_show(key), which ? "is there twice" : "is not known");
        seen |= which;
        if (which == DESCR && !read_descr(s, a))
            return false;
        if (which == SHAPE && !read_shape(s, a))
            return false;
        if (which == ORDER && !(fortran = take_word(s, "True")) && !take_word(s, "False"))
            return header_error(s, "'fortran_order' is neither True nor False");
        if (!take(s, ',')) {
            if (!take(s, '}'))
                return header_error(s, "it is not closed");
            break;
        }
    }
    skip(s);
    if (s->p != s->end)
        return header_error(s, "text after its end");
    if (seen != ALL)
        return header_error(s, !(seen & DESCR)   ? "no 'descr'"
                               : !(seen & SHAPE) ? "no 'shape'"
                                                 : "no 'fortran_order'");
    if (fortran && a->rank > 1)
        return err_set(s->e, ERR_UNSUPPORTED, "%s: is in Fortran order, need C order",
                       text_show(s->path));
    return true;
}

static bool count_elements(npy *a, err *e) {
    bool zero = false, overflow = false;
    int64_t bytes;
    a->count = 1;
    for (int i = 0; i < a->rank; i++) {
        zero |= a->dims[i] == 0;
        overflow |= a->dims[i] != 0 && __builtin_mul_overflow(a->count, a->dims[i], &a->count);
    }
    if (overflow || __builtin_mul_overflow(a->count, (int64_t)types[a->type].size, &bytes))
        return err_set(e, ERR_INPUT, "%s: shape overflows", text_show(a->path));
    if (zero)
        a->count = 0;
    a->bytes = (size_t)a->count * types[a->type].size;
    return true;
}

// On success *begin is where the elements start.
static bool read_header(int fd, size_t size, npy *a, size_t *begin, err *e) {
    unsigned char s[PREFIX + 4];
    const char *name = text_show(a->path);
    if (size < PREFIX + 2)
        return err_set(e, ERR_INPUT, "%s: only %zu bytes, too short for a .npy file", name, size);
    size_t n = size < sizeof s ? size : sizeof s;
    if (!file_read_at(fd, a->path, 0, s, n, e))
        return false;
    if (memcmp(s, MAGIC, 6) != 0)
        return err_set(e, ERR_INPUT, "%s: not a .npy file (it must begin with \\x93NUMPY)", name);
    if (s[6] < 1 || s[6] > 3 || n < (s[6] == 1 ? PREFIX + 2 : PREFIX + 4))
        return err_set(e, ERR_UNSUPPORTED, "%s: .npy version %d.%d is not known", name, s[6], s[7]);
    size_t at = s[6] == 1 ? PREFIX + 2 : PREFIX + 4, length = s[8] | (size_t)s[9] << 8;
    if (s[6] > 1)
        length |= (size_t)s[10] << 16 | (size_t)s[11] << 24;
    if (length > HEADER_MAX)
        return err_set(e, ERR_INPUT, "%s: bad .npy header: it would have %zu bytes", name, length);
    if (length > size - at)
        return err_set(e, ERR_INPUT,
                       "%s: file ends inside its header (got %zu bytes, the header needs %zu)",
                       name, size, at + length);
    char *text = mem_alloc(length, 1, "a .npy header", e);
    if (!text)
        return false;
    scan sc = {text, text + length, a->path, e};
    bool ok = file_read_at(fd, a->path, at, text, length, e) && parse_dict(&sc, a) &&
              count_elements(a, e);
    free(text);
    *begin = at + length;
    return ok;
}

bool npy_read(const char *path, npy *out, err *e) {
    size_t size = 0, begin = 0;
    bool ok = false;
    memset(out, 0, sizeof *out);
    int fd = file_open(path, &size, e);
    if (fd < 0)
        return false;
    out->path = mem_strdup(path, e);
    if (!out->path || !read_header(fd, size, out, &begin, e))
        goto done;
    size_t have = size - begin;
    if (have < out->bytes)
        err_set(e, ERR_INPUT,
                "%s: file is %zu bytes shorter than its header says (got %zu, need "
                "%zu)",
                text_show(path), out->bytes - have, size, begin + out->bytes);
    else if (have > out->bytes)
        err_set(e, ERR_INPUT, "%s: %zu bytes after the array (got %zu, need %zu)", text_show(path),
                have - out->bytes, size, begin + out->bytes);
    else if ((out->data = mem_alloc(out->bytes, 1, text_show(path), e)))
        ok = file_read_at(fd, path, begin, out->data, out->bytes, e);
done:
    close(fd);
    if (!ok)
        npy_free(out);
    return ok;
}

double *npy_as_f64(const npy *a, err *e) {
    if (a->type == NPY_C16) {
        err_set(e, ERR_INPUT, "%s: holds complex numbers, need real ones", text_show(a->path));
        return NULL;
    }
    double *out = mem_alloc((size_t)a->count, sizeof *out, text_show(a->path), e);
    if (!out)
        return NULL;
    size_t n = (size_t)a->count;
    if (a->type == NPY_F8 || a->type == NPY_F4 || a->type == NPY_F2) {
        dtype_to_f64(a->type == NPY_F8   ? DT_F64
                     : a->type == NPY_F4 ? DT_F32
                                         : DT_F16,
                     a->data, n, out);
        return out;
    }
    static const int64_t exact = (int64_t)1 << 53;
    const uint64_t *u8 = a->data;
    const int64_t *i8 = a->data;
    for (size_t i = 0; i < n; i++)
        switch (a->type) {
        case NPY_I8:
            if (i8[i] > exact || i8[i] < -exact) {
                err_set(e, ERR_INPUT, "%s: element %zu is %lld, too large to be exact",
                        text_show(a->path), i, (long long)i8[i]);
                goto fail;
            }
            out[i] = (double)i8[i];
            break;
        case NPY_U8:
            if (u8[i] > (uint64_t)exact) {
                err_set(e, ERR_INPUT, "%s: element %zu is %llu, too large to be exact",
                        text_show(a->path), i, (unsigned long long)u8[i]);
                goto fail;
            }
            out[i] = (double)u8[i];
            break;
        case NPY_I4:
            out[i] = ((const int32_t *)a->data)[i];
            break;
        case NPY_I2:
            out[i] = ((const int16_t *)a->data)[i];
            break;
        case NPY_I1:
            out[i] = ((const int8_t *)a->data)[i];
            break;
        case NPY_U4:
            out[i] = ((const uint32_t *)a->data)[i];
            break;
        case NPY_U2:
            out[i] = ((const uint16_t *)a->data)[i];
            break;
        default: // NPY_U1, NPY_B1
            out[i] = ((const uint8_t *)a->data)[i];
            break;
        }
    return out;
fail:
    free(out);
    return NULL;
}

int32_t *npy_as_i32(const npy *a, err *e) {
    if (a->type == NPY_C16 || a->type == NPY_F8 || a->type == NPY_F4 || a->type == NPY_F2) {
        err_set(e, ERR_INPUT, "%s: holds %s, need whole numbers", text_show(a->path),
                types[a->type].name);
        return NULL;
    }
    int32_t *out = mem_alloc((size_t)a->count, sizeof *out, text_show(a->path), e);
    if (!out)
        return NULL;
    for (size_t i = 0; i < (size_t)a->count; i++) {
        int64_t x;
        bool fits = true;
        switch (a->type) {
        case NPY_I8:
            x = ((const int64_t *)a->data)[i];
            break;
        case NPY_U8:
            x = (int64_t)((const uint64_t *)a->data)[i];
            fits = x >= 0;
            break;
        case NPY_I4:
            x = ((const int32_t *)a->data)[i];
            break;
        case NPY_U4:
            x = ((const uint32_t *)a->data)[i];
            break;
        case NPY_I2:
            x = ((const int16_t *)a->data)[i];
            break;
        case NPY_U2:
            x = ((const uint16_t *)a->data)[i];
            break;
        case NPY_I1:
            x = ((const int8_t *)a->data)[i];
            break;
        default: // NPY_U1, NPY_B1
            x = ((const uint8_t *)a->data)[i];
            break;
        }
        if (!fits || x < INT32_MIN || x > INT32_MAX) {
            char shown[32];
            snprintf(shown, sizeof shown, fits ? "%lld" : "%llu", (long long)x);
            err_set(e, ERR_INPUT, "%s: element %zu is %s, need 32 bits", text_show(a->path), i,
                    shown);
            free(out);
            return NULL;
        }
        out[i] = (int32_t)x;
    }
    return out;
}

struct npy_writer {
    outfile *o;
    npy_type type;
    size_t need, have; // elements
};

// The dict, padded so that the elements begin at a multiple of 64.
static size_t header_text(char *buf, size_t size, npy_type type, int rank, const int64_t *dims) {
    size_t at = PREFIX + 2;
    at += (size_t)snprintf(buf + at, size - at,
                           "{'descr': '%s', 'fortran_order': False, 'shape': (", types[type].code);
    for (int i = 0; i < rank; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%lld", i ? ", " : "", (long long)dims[i]);
    at += (size_t)snprintf(buf + at, size - at, "%s), }", rank == 1 ? "," : "");
    while ((at + 1) % ALIGN != 0)
        buf[at++] = ' ';
    buf[at++] = '\n';
    memcpy(buf, MAGIC, 6);
    buf[6] = 1, buf[7] = 0;
    buf[8] = (char)((at - PREFIX - 2) & 0xff), buf[9] = (char)((at - PREFIX - 2) >> 8);
    return at;
}

npy_writer *npy_writer_open(const char *path, npy_type type, int rank, const int64_t *dims,
                            err *e) {
    char head[512]; // 8 sides of at most 21 characters, and the words: always enough
    size_t need = 1, bytes;
    if (rank < 0 || rank > NPY_MAX_RANK) {
        err_set(e, ERR_UNSUPPORTED, "%s: more than %d dimensions", text_show(path), NPY_MAX_RANK);
        return NULL;
    }
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0 || !mem_mul(need, (size_t)dims[i], &need)) {
            err_set(e, ERR_INPUT, "%s: an array with a side of %lld cannot be written",
                    text_show(path), (long long)dims[i]);
            return NULL;
        }
    if (!mem_mul(need, types[type].size, &bytes)) {
        err_set(e, ERR_INPUT, "%s: array of %zu elements is too large", text_show(path), need);
        return NULL;
    }
    npy_writer *w = mem_zalloc(1, sizeof *w, "a .npy writer", e);
    if (!w)
        return NULL;
    w->type = type;
    w->need = need;
    w->o = outfile_open(path, e);
    size_t n = header_text(head, sizeof head, type, rank, dims);
    if (w->o && outfile_write(w->o, head, n, e))
        return w;
    npy_writer_close(w);
    return NULL;
}

bool npy_writer_append(npy_writer *w, const void *data, size_t n, err *e) {
    if (n > w->need - w->have)
        return err_set(e, ERR_IO, "%s: %zu elements more than its shape has",
                       text_show(outfile_path(w->o)), n - (w->need - w->have));
    if (!outfile_write(w->o, data, n * types[w->type].size, e))
        return false;
    w->have += n;
    return true;
}

bool npy_writer_finish(npy_writer *w, err *e) {
    if (w->have != w->need)
        return err_set(e, ERR_IO, "%s: only %zu of %zu elements were written",
                       text_show(outfile_path(w->o)), w->have, w->need);
    return outfile_commit(w->o, e);
}

void npy_writer_close(npy_writer *w) {
    if (!w)
        return;
    outfile_close(w->o);
    free(w);
}

bool npy_write(const char *path, npy_type type, int rank, const int64_t *dims, const void *data,
               err *e) {
    npy_writer *w = npy_writer_open(path, type, rank, dims, e);
    bool ok = w && npy_writer_append(w, data, w->need, e) && npy_writer_finish(w, e);
    npy_writer_close(w);
    return ok;
}
