// B8: a page that cannot be read is an answer, not the end of the program.

#include "core/busguard.h"
#include "tests/files.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGES = 16, PAGE = 4096 };

typedef struct range {
    const volatile unsigned char *p;
    size_t n;
    long sum;
} range;

static void add_up(void *arg) {
    range *r = arg;
    for (size_t i = 0; i < r->n; i += 64)
        r->sum += r->p[i];
}

// A mapping whose second half has lost its file.
static const volatile unsigned char *half_gone(void) {
    static char bytes[PAGES * PAGE];
    const char *path = files_path("half");
    memset(bytes, 1, sizeof bytes);
    files_write(path, bytes, sizeof bytes);
    int fd = open(path, O_RDONLY);
    void *p = mmap(NULL, sizeof bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    assert_true(p != MAP_FAILED);
    assert_int_equal(truncate(path, PAGES * PAGE / 2), 0);
    return p;
}

static void lost_pages_give_false_and_the_handler_is_put_back(void **state) {
    (void)state;
    const volatile unsigned char *p = half_gone();
    struct sigaction before, after;
    sigaction(SIGBUS, NULL, &before);
    range whole = {p, PAGES * PAGE, 0}, half = {p, PAGES * PAGE / 2, 0};
    for (int i = 0; i < 3; i++) {
        assert_false(busguard_run(add_up, &whole));
        assert_true(busguard_run(add_up, &half));
    }
    assert_int_equal(half.sum, 3 * PAGES * PAGE / 2 / 64);
    sigaction(SIGBUS, NULL, &after);
    assert_true(before.sa_sigaction == after.sa_sigaction);
    munmap((void *)(uintptr_t)p, PAGES * PAGE);
}

static const volatile unsigned char *shared_map;

static void *in_a_thread(void *arg) {
    long *wrong = arg;
    for (int i = 0; i < 200; i++) {
        range whole = {shared_map, PAGES * PAGE, 0}, half = {shared_map, PAGES * PAGE / 2, 0};
        *wrong += busguard_run(add_up, &whole);
        *wrong += !busguard_run(add_up, &half);
        *wrong += half.sum != PAGES * PAGE / 2 / 64;
    }
    return NULL;
}

static void threads_do_not_disturb_each_other(void **state) {
    (void)state;
    enum { THREADS = 4 };
    pthread_t t[THREADS];
    long wrong[THREADS] = {0};
    shared_map = half_gone();
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, in_a_thread, &wrong[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(wrong[i], 0);
    }
    munmap((void *)(uintptr_t)shared_map, PAGES * PAGE);
}

static void inner(void *arg) {
    range *r = arg;
    range whole = {r->p, PAGES * PAGE, 0};
    r->sum = busguard_run(add_up, &whole) ? 1 : 2; // caught inside: the outer one goes on
}

static void guards_may_be_nested(void **state) {
    (void)state;
    range r = {half_gone(), 0, 0};
    assert_true(busguard_run(inner, &r));
    assert_int_equal(r.sum, 2);
    munmap((void *)(uintptr_t)r.p, PAGES * PAGE);
}

static sigjmp_buf out;

static void own_handler(int sig) {
    (void)sig;
    siglongjmp(out, 1);
}

static void a_handler_of_the_program_itself_survives(void **state) {
    (void)state;
    struct sigaction mine = {.sa_handler = own_handler}, before;
    sigaction(SIGBUS, &mine, &before);
    const volatile unsigned char *p = half_gone();
    range whole = {p, PAGES * PAGE, 0};
    assert_false(busguard_run(add_up, &whole));
    volatile bool reached = false;
    if (sigsetjmp(out, 1) == 0)
        add_up(&whole);
    else
        reached = true;
    assert_true(reached);
    sigaction(SIGBUS, &before, NULL);
    munmap((void *)(uintptr_t)p, PAGES * PAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_pages_give_false_and_the_handler_is_put_back),
        cmocka_unit_test(threads_do_not_disturb_each_other),
        cmocka_unit_test(guards_may_be_nested),
        cmocka_unit_test(a_handler_of_the_program_itself_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
