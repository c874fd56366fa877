#include "core/document.h"
#include "core/mem.h"
#include "core/npy.h"
#include "core/sha256.h"
#include "tests/files.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

// A tokenizer for these tests alone: the ids are the bytes, and it counts how often it is called.
// The true one has tests of its own. The linker puts these two in its place (Makefile).
struct tokenizer {
    int calls;
};
static tokenizer bytes;

bool __wrap_tokenizer_encode(const tokenizer *t, const char *text, size_t n, bool add_special,
                             progress_fn progress, void *progress_ctx, ids *out, err *e);
bool __wrap_tokenizer_adds_special(const tokenizer *t, char *buf, size_t size);

bool __wrap_tokenizer_encode(const tokenizer *t, const char *text, size_t n, bool add_special,
                             progress_fn progress, void *progress_ctx, ids *out, err *e) {
    (void)progress, (void)progress_ctx;
    ((tokenizer *)(uintptr_t)t)->calls++;
    if (!mem_grow((void **)&out->v, &out->cap, out->n + n + 1, sizeof *out->v, "ids", e))
        return false;
    if (add_special)
        out->v[out->n++] = 1;
    for (size_t i = 0; i < n; i++)
        out->v[out->n++] = (unsigned char)text[i];
    return true;
}

bool __wrap_tokenizer_adds_special(const tokenizer *t, char *buf, size_t size) {
    (void)t;
    snprintf(buf, size, "<s> (1) in front");
    return true;
}

static const document_options PLAIN = {.tokenizer = &bytes};

static document opened(const char *path, const document_options *o) {
    document d;
    err e = {0};
    if (!document_read(path, o, &d, &e))
        fail_msg("%s", e.text);
    return d;
}

static document text_of(const char *text, size_t n, const document_options *o) {
    files_write(files_path("a.txt"), text, n);
    return opened(files_path("a.txt"), o);
}

static void is_bytes(const document *d, const char *want, size_t n) {
    assert_int_equal(d->n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(d->ids[i], (unsigned char)want[i]);
}

// WANT begins with the file's name; messages give its path.
static void refused(const char *path, const document_options *o, err_code code, const char *want) {
    document d;
    err e = {0};
    assert_false(document_read(path, o, &d, &e));
    bool bare = strncmp(path, "-", 2) == 0 || strncmp(want, files_folder(), 12) == 0;
    files_assert_error(&e, code, "%s%s%s", bare ? "" : files_folder(), bare ? "" : "/", want);
    assert_null(d.ids);
    assert_null(d.name);
}

static void a_text_file_is_one_document(void **state) {
    (void)state;
    document d = text_of("hello\nworld\n", 12, &PLAIN);
    is_bytes(&d, "hello\nworld\n", 12);
    assert_string_equal(d.name, "a.txt");
    assert_int_equal(d.n_starts, 1);
    assert_int_equal(d.starts[0], 0);
    assert_int_equal(d.bytes, 12);
    assert_int_equal(d.bad_utf8, 0);
    assert_string_equal(d.added, "");
    assert_string_equal(d.sha256, "");
    document_free(&d);
    document_free(&d);
}

static void b45_an_empty_document_has_no_tokens_and_is_no_error(void **state) {
    (void)state;
    document_options o = {.tokenizer = &bytes, .add_bos = true, .bos = 5, .add_special = true};
    document d = text_of("", 0, &o);
    assert_int_equal(d.n, 0);
    assert_int_equal(d.n_starts, 0);
    assert_int_equal(d.n_empty, 1);
    document_free(&d);
    files_text(files_path("a.jsonl"), "{\"text\":\"ab\"}\n{\"text\":\"\"}\n{\"text\":\"c\"}\n");
    d = opened(files_path("a.jsonl"), &PLAIN);
    is_bytes(&d, "abc", 3);
    assert_int_equal(d.n_starts, 2);
    assert_int_equal(d.starts[1], 2);
    assert_int_equal(d.n_empty, 1);
    document_free(&d);
}

static void b74_what_was_put_in_front_is_said(void **state) {
    (void)state;
    document_options o = {.tokenizer = &bytes, .add_bos = true, .bos = 0};
    document d = text_of("ab", 2, &o); // BOS 0, which is EOS as well in some models
    is_bytes(&d, "\0ab", 3);
    assert_string_equal(d.added, "id 0 in front of 1 document");
    document_free(&d);
    o.bos = 'a'; // already there
    d = text_of("ab", 2, &o);
    is_bytes(&d, "ab", 2);
    assert_string_equal(d.added, "");
    document_free(&d);
    o.add_bos = false;
    o.add_special = true;
    d = text_of("ab", 2, &o);
    is_bytes(&d, "\1ab", 3);
    assert_string_equal(d.added, "<s> (1) in front");
    document_free(&d);
    o.add_bos = true;
    o.bos = 7;
    files_text(files_path("a.jsonl"), "{\"text\":\"a\"}\n{\"text\":\"b\"}");
    d = opened(files_path("a.jsonl"), &o);
    is_bytes(&d, "\7\1a\7\1b", 6);
    assert_string_equal(d.added, "<s> (1) in front; id 7 in front of 2 documents");
    assert_int_equal(d.starts[1], 3);
    document_free(&d);
    o.n_vocab = 4;
    files_text(files_path("a.txt"), "ab");
    refused(files_path("a.txt"), &o, ERR_INPUT,
            "a.txt: the BOS id 7 is not one of the model's (0 to 3)");
    o.bos = -1; // null in the config
    o.n_vocab = 0;
    refused(files_path("a.txt"), &o, ERR_INPUT,
            "a.txt: the BOS id -1 is not one of the model's (0 to 2147483647)");
}

typedef struct feed {
    int fd;
    const char *text;
    size_t n, piece;
} feed;

static void *feeder(void *arg) {
    feed *f = arg;
    for (size_t at = 0; at < f->n;) {
        size_t n = f->piece < f->n - at ? f->piece : f->n - at;
        ssize_t w = write(f->fd, f->text + at, n);
        if (w <= 0)
            break;
        at += (size_t)w;
    }
    close(f->fd);
    return NULL;
}

static void b75_a_pipe_in_odd_pieces_reads_as_the_file_does(void **state) {
    (void)state;
    // Three-byte characters with one and two bytes in front: every border falls inside one.
    enum { N = 200000 };
    char *text = malloc(N);
    for (size_t lead = 0; lead < 3; lead++) {
        memset(text, 'x', lead);
        for (size_t i = lead; i + 3 <= N; i += 3)
            memcpy(text + i, "\xe6\x97\xa5", 3);
        size_t n = lead + (N - lead) / 3 * 3;
        static const size_t pieces[] = {7, 4096, 65536, 100000};
        for (int k = 0; k < 4; k++) {
            int p[2];
            pthread_t t;
            assert_int_equal(pipe(p), 0);
            feed f = {p[1], text, n, pieces[k]};
            assert_int_equal(pthread_create(&t, NULL, feeder, &f), 0);
            document_options o = PLAIN;
            o.input = fdopen(p[0], "rb");
            bytes.calls = 0;
            document d = opened("-", &o);
            pthread_join(t, NULL);
            fclose(o.input);
            is_bytes(&d, text, n);
            assert_int_equal(d.bad_utf8, 0);
            assert_int_equal(bytes.calls, 1); // as one string
            assert_string_equal(d.name, "standard input");
            document_free(&d);
        }
    }
    free(text);
}

typedef struct named {
    const char *path;
    feed f;
} named;

static void *named_feeder(void *arg) {
    named *n = arg;
    n->f.fd = open(n->path, O_WRONLY); // waits for the reader
    return feeder(&n->f);
}

static void a_named_pipe_is_a_document_too(void **state) {
    (void)state;
    named n = {files_path("fifo"), {-1, "hello", 5, 2}};
    pthread_t t;
    assert_int_equal(mkfifo(n.path, 0666), 0);
    assert_int_equal(pthread_create(&t, NULL, named_feeder, &n), 0);
    document d = opened(n.path, &PLAIN);
    pthread_join(t, NULL);
    is_bytes(&d, "hello", 5);
    document_free(&d);
}

// Fault B100: reading /dev/zero to its end takes the whole memory of the machine.
static void a_device_without_end_is_refused_at_once(void **state) {
    (void)state;
    static const char *const path[] = {"/dev/zero", "/dev/full", "/dev/urandom"};
    for (int i = 0; i < 3; i++)
        for (int by_stream = 0; by_stream < 2; by_stream++) {
            document_options o = PLAIN;
            document d = {0};
            err e = {0};
            o.input = by_stream ? fopen(path[i], "rb") : NULL;
            if (by_stream)
                assert_non_null(o.input);
            assert_false(document_read(by_stream ? "-" : path[i], &o, &d, &e));
            assert_int_equal(e.code, ERR_INPUT);
            assert_non_null(strstr(e.text, "is a device"));
            if (o.input)
                fclose(o.input);
        }
    document d = opened("/dev/null", &PLAIN); // has an end
    assert_int_equal(d.n, 0);
    document_free(&d);
}

static void b76_bom_crlf_and_nul_reach_the_tokenizer(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t n;
    } forms[] = {{"a\nb\n", 4},
                 {"a\r\nb\r\n", 6},
                 {"\xef\xbb\xbf"
                  "a\nb",
                  6},
                 {"a\0b\0", 4}};
    for (int i = 0; i < 4; i++) {
        document d = text_of(forms[i].text, forms[i].n, &PLAIN);
        is_bytes(&d, forms[i].text, forms[i].n);
        assert_int_equal(d.bad_utf8, 0);
        document_free(&d);
    }
    files_text(files_path("a.jsonl"), "\xef\xbb\xbf{\"text\":\"a\\u0000b\"}\r\n");
    document d = opened(files_path("a.jsonl"), &PLAIN);
    is_bytes(&d, "a\0b", 3);
    document_free(&d);
}

// B69
static void parts_that_are_no_utf8_are_counted(void **state) {
    (void)state;
    document d = text_of("a\xff\xe6\x97 b\x80", 7, &PLAIN);
    assert_int_equal(d.bad_utf8, 3);
    document_free(&d);
}

static void b77_an_id_beyond_the_embedding_is_named(void **state) {
    (void)state;
    document_options o = {.n_vocab = 32000};
    static const int32_t x[4] = {5, 31999, 32001, 7};
    err e = {0};
    const char *path = files_path("ids.npy");
    assert_true(npy_write(path, NPY_I4, 1, (int64_t[]){2}, x, &e));
    document d = opened(path, &o);
    assert_int_equal(d.n, 2);
    assert_int_equal(d.ids[1], 31999);
    document_free(&d);
    assert_true(npy_write(path, NPY_I4, 1, (int64_t[]){4}, x, &e));
    refused(path, &o, ERR_INPUT,
            "ids.npy: token 2 has id 32001, but the model knows only 32000 (0 to 31999)");
    o.add_bos = true; // the place stays that of the file
    o.bos = 1;
    refused(path, &o, ERR_INPUT,
            "ids.npy: token 2 has id 32001, but the model knows only 32000 (0 to 31999)");
    static const int64_t negative[2] = {3, -1};
    assert_true(npy_write(path, NPY_I8, 1, (int64_t[]){2}, negative, &e));
    refused(path, &o, ERR_INPUT, "ids.npy: token 1 has id -1, ids are 0 or more");
    o.tokenizer = &bytes; // the same for text
    o.n_vocab = 100;
    files_text(files_path("a.txt"), "AZz");
    refused(files_path("a.txt"), &o, ERR_INPUT,
            "a.txt: token 2 has id 122, but the model knows only 100 (0 to 99)");
}

static void arrays_of_ids_need_no_tokenizer(void **state) {
    (void)state;
    document_options o = {0};
    static const int64_t x[6] = {1, 2, 3, 4, 5, 6};
    err e = {0};
    const char *path = files_path("ids.npy");
    assert_true(npy_write(path, NPY_I8, 2, (int64_t[]){2, 3}, x, &e));
    document d = opened(path, &o); // rows are documents
    assert_int_equal(d.n, 6);
    assert_int_equal(d.n_starts, 2);
    assert_int_equal(d.starts[1], 3);
    assert_int_equal(d.ids[3], 4);
    assert_int_equal(d.bytes, 128 + 48);
    document_free(&d);
    assert_true(npy_write(path, NPY_I8, 2, (int64_t[]){2, 0}, x, &e));
    d = opened(path, &o);
    assert_true(d.n == 0 && d.n_empty == 2);
    document_free(&d);
    const int64_t rows = (int64_t)1 << 56; // none takes any time
    assert_true(npy_write(path, NPY_I8, 2, (int64_t[]){rows, 0}, x, &e));
    d = opened(path, &o);
    assert_true(d.n == 0 && d.n_empty == rows);
    document_free(&d);
    assert_true(npy_write(path, NPY_I8, 3, (int64_t[]){1, 2, 3}, x, &e));
    refused(path, &o, ERR_INPUT, "ids.npy: token ids must have 1 or 2 dimensions, these have 3");
    assert_true(npy_write(path, NPY_I8, 0, NULL, x, &e));
    refused(path, &o, ERR_INPUT, "ids.npy: token ids must have 1 or 2 dimensions, these have 0");
    char want[1200];
    assert_true(npy_write(path, NPY_F8, 1, (int64_t[]){1}, x, &e));
    snprintf(want, sizeof want, "%s: holds float64, need whole numbers", path);
    refused(path, &o, ERR_INPUT, want);
    files_text(files_path("a.txt"), "x");
    refused(files_path("a.txt"), &o, ERR_MISSING,
            "a.txt: is text, and there is no tokenizer to make token ids of it");
}

static void lines_of_json_are_documents(void **state) {
    (void)state;
    const char *path = files_path("a.jsonl");
    files_text(path, "{\"text\":\"ab\",\"id\":123456789012345678901234567890}\n\n  \r\n"
                     "{\"id\":1,\"id\":2,\"text\":\"c\\u00e9\"}");
    document d = opened(path, &PLAIN);
    is_bytes(&d, "abc\xc3\xa9", 5);
    assert_int_equal(d.n_starts, 2);
    assert_int_equal(d.starts[0], 0);
    assert_int_equal(d.starts[1], 2);
    assert_int_equal(d.n_empty, 0);
    document_free(&d);
    static const struct {
        const char *text, *want;
    } bad[] = {
        {"{\"text\":\"a\"}\n\n{\"text\":\"b\"", "a.jsonl: line 3 is not JSON at column 11: '}' "
                                                "expected near end of file"},
        {"{\"text\":\"a\"}\nplain", "a.jsonl: line 2 is not JSON at column 5: invalid token near "
                                    "'plain'"},
        {"{\"txt\":\"a\"}", "a.jsonl: line 1: no field \"text\""},
        {"{\"text\":3}", "a.jsonl: line 1: the field \"text\" is not a string"},
        {"[1]", "a.jsonl: line 1: is not an object with a field \"text\""},
        {"{\"text\":\"a\xff\"}", "a.jsonl: line 1 is not JSON at column 10: unable to decode byte "
                                 "0xff near '\"a'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        files_text(path, bad[i].text);
        refused(path, &PLAIN, ERR_INPUT, bad[i].want);
    }
}

static void what_cannot_be_read_is_named(void **state) {
    (void)state;
    char want[1200];
    snprintf(want, sizeof want, "%s: is a folder, need a file", files_folder());
    refused(files_folder(), &PLAIN, ERR_INPUT, want);
    snprintf(want, sizeof want, "%s: no such file or folder", files_path("absent.txt"));
    refused(files_path("absent.txt"), &PLAIN, ERR_MISSING, want);
    snprintf(want, sizeof want, "%s: no such file or folder", files_path("absent.npy"));
    refused(files_path("absent.npy"), &PLAIN, ERR_MISSING, want);
    document_options o = PLAIN;
    o.input = fopen("/dev/null", "w"); // a stream that cannot be read
    refused("-", &o, ERR_IO, "standard input: Bad file descriptor");
    fclose(o.input);
}

static void names_that_would_harm_a_terminal_are_escaped(void **state) {
    (void)state;
    document_options o = {0};
    files_text(files_path("a\x1b[2J.txt"), "x");
    refused(files_path("a\x1b[2J.txt"), &o, ERR_MISSING,
            "a\\x1b[2J.txt: is text, and there is no tokenizer to make token ids of it");
}

static void running_out_of_memory_is_an_error_at_every_point(void **state) {
    (void)state;
    static const int32_t x[4] = {1, 2, 3, 4};
    err e = {0};
    const char *paths[] = {files_path("a.jsonl"), files_path("a.txt"), files_path("a.npy")};
    files_text(paths[0], "{\"text\":\"ab\"}\n{\"text\":\"c\"}");
    files_text(paths[1], "abc");
    assert_true(npy_write(paths[2], NPY_I4, 2, (int64_t[]){2, 2}, x, &e));
    document_options o = {.tokenizer = &bytes, .add_bos = true, .bos = 9, .digest = true};
    for (int k = 0; k < 3; k++) {
        bool done = false;
        for (long n = 1; !done; n++) {
            document d;
            err_clear(&e);
            mem_fail_after(n);
            done = document_read(paths[k], &o, &d, &e);
            mem_fail_after(0);
            assert_int_equal(e.code, done ? ERR_NONE : ERR_NOMEM);
            document_free(&d);
        }
        done = false;
        for (long n = 1; !done; n++) {
            document d;
            err_clear(&e);
            files_json_fail_after(n);
            done = document_read(paths[k], &o, &d, &e);
            files_json_fail_after(0);
            assert_true(done == (e.code == ERR_NONE));
            document_free(&d);
        }
    }
}

static void reference_documents_are_read(void **state) {
    (void)state;
    const char *text = files_shared("documents/text_kjv.txt"),
               *lines = files_shared("documents/short_fortunes.jsonl");
    if (!text || !lines)
        skip();
    document_options o = {.tokenizer = &bytes, .digest = true};
    double t = files_seconds();
    document d = opened(text, &o);
    t = files_seconds() - t;
    assert_int_equal(d.n, 1500000);
    assert_int_equal(d.bad_utf8, 0);
    print_message("measured reading 1.5 MB with its SHA-256: %.1f ms\n", t * 1e3);
    document_free(&d);
    t = files_seconds();
    d = opened(lines, &PLAIN);
    t = files_seconds() - t;
    assert_true(d.n_starts > 1000 && d.n > 100000);
    print_message("measured reading %lld lines of JSON: %.1f ms\n", (long long)d.n_starts, t * 1e3);
    document_free(&d);
}

// FIPS 180-4 examples (NIST), and the digest is of the file's bytes.
static void sha256_gives_the_published_digests(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t times;
        const char *want;
    } cases[] = {
        {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sha256 s;
        char hex[65];
        sha256_init(&s);
        for (size_t k = 0; k < cases[i].times; k++)
            sha256_add(&s, cases[i].text, strlen(cases[i].text));
        sha256_hex(&s, hex);
        assert_string_equal(hex, cases[i].want);
    }
    document_options o = {.tokenizer = &bytes, .digest = true};
    document d = text_of("abc", 3, &o);
    assert_string_equal(d.sha256, cases[1].want);
    document_free(&d);
    // Any division into pieces is the same.
    char text[200], one[65], two[65];
    memset(text, 'q', sizeof text);
    for (size_t n = 0; n <= sizeof text; n += 13)
        for (size_t cut = 0; cut <= n; cut += 7) {
            sha256 s;
            sha256_init(&s);
            sha256_add(&s, text, n);
            sha256_hex(&s, one);
            sha256_init(&s);
            sha256_add(&s, text, cut);
            sha256_add(&s, text + cut, n - cut);
            sha256_hex(&s, two);
            assert_string_equal(one, two);
        }
}

static int clean(void **state) {
    (void)state;
    files_clear();
    return 0;
}

#define CASE(f) cmocka_unit_test_teardown(f, clean)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_text_file_is_one_document),
        CASE(b45_an_empty_document_has_no_tokens_and_is_no_error),
        CASE(b74_what_was_put_in_front_is_said),
        CASE(b75_a_pipe_in_odd_pieces_reads_as_the_file_does),
        CASE(a_named_pipe_is_a_document_too),
        CASE(a_device_without_end_is_refused_at_once),
        CASE(b76_bom_crlf_and_nul_reach_the_tokenizer),
        CASE(parts_that_are_no_utf8_are_counted),
        CASE(b77_an_id_beyond_the_embedding_is_named),
        CASE(arrays_of_ids_need_no_tokenizer),
        CASE(lines_of_json_are_documents),
        CASE(what_cannot_be_read_is_named),
        CASE(names_that_would_harm_a_terminal_are_escaped),
        CASE(running_out_of_memory_is_an_error_at_every_point),
        CASE(reference_documents_are_read),
        CASE(sha256_gives_the_published_digests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
