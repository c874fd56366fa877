#include "core/npy.h"

#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

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
enum { TYPES = sizeof types / sizeof *types, HEADER_MAX = 1 << 20, PREFIX = 8 };
static const char MAGIC[] = "\x93NUMPY";

size_t npy_type_size(npy_type t) {
    return types[t].size;
}

const char *npy_type_name(npy_type t) {
    return types[t].name;
}

const char *npy_type_code(npy_type t) {
    return types[t].code;
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
    // Order of bytes: none for one byte, '=' is the writer's own (all that matter are little).
    const char *kind = code[0] ? code + 1 : code;
    if (code[0] == '>' && strcmp(kind, "i1") && strcmp(kind, "u1") && strcmp(kind, "b1"))
        return err_set(s->e, ERR_UNSUPPORTED,
                       "%s: holds big-endian numbers ('%s'), need little-endian",
                       text_show(s->path), text_show(code));
    for (int t = 0; code[0] && strchr("<|=>", code[0]) && t < (int)TYPES; t++)
        if (strcmp(kind, types[t].code + 1) == 0) {
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

// *fortran: the first side runs fastest in the file.
static bool parse_dict(scan *s, npy *a, bool *fortran) {
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    int seen = 0;
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
        if (which == ORDER && !(*fortran = take_word(s, "True")) && !take_word(s, "False"))
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
static bool read_header(int fd, size_t size, npy *a, size_t *begin, bool *fortran, err *e) {
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
    bool ok = file_read_at(fd, a->path, at, text, length, e) && parse_dict(&sc, a, fortran) &&
              count_elements(a, e);
    free(text);
    *begin = at + length;
    return ok;
}

// Puts elements that lie in Fortran order into C order: walks the file's order and counts the
// place in the other one along. NumPy writes such files for transposed arrays.
static bool to_c_order(npy *a, err *e) {
    size_t size = types[a->type].size, stride[NPY_MAX_RANK], at = 0;
    int64_t index[NPY_MAX_RANK] = {0};
    char *sorted = mem_alloc(a->bytes, 1, text_show(a->path), e);
    if (!sorted)
        return false;
    for (int r = a->rank - 1; r >= 0; r--)
        stride[r] = r == a->rank - 1 ? size : stride[r + 1] * (size_t)a->dims[r + 1];
    for (size_t i = 0; i < (size_t)a->count; i++) {
        memcpy(sorted + at, (char *)a->data + i * size, size);
        for (int r = 0; r < a->rank; r++) {
            at += stride[r];
            if (++index[r] < a->dims[r])
                break;
            at -= stride[r] * (size_t)a->dims[r];
            index[r] = 0;
        }
    }
    free(a->data);
    a->data = sorted;
    return true;
}

bool npy_read(const char *path, npy *out, err *e) {
    size_t size = 0, begin = 0;
    bool ok = false, fortran = false;
    memset(out, 0, sizeof *out);
    int fd = file_open(path, &size, e);
    if (fd < 0)
        return false;
    out->path = mem_strdup(path, e);
    if (!out->path || !read_header(fd, size, out, &begin, &fortran, e))
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
        ok = file_read_at(fd, path, begin, out->data, out->bytes, e) &&
             (!fortran || out->rank < 2 || to_c_order(out, e));
done:
    close(fd);
    if (!ok)
        npy_free(out);
    return ok;
}
