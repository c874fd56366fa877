// cli/dash/shared.h - objects that the worker and the screen hold together: the last one frees.
#ifndef DELTOP_DASH_SHARED_H
#define DELTOP_DASH_SHARED_H

#include <stdatomic.h>
#include <stddef.h>

// First member of such an object.
typedef struct shared {
    atomic_int refs;
    void (*free)(void *object);
} shared;

static inline void shared_init(shared *s, void (*free)(void *)) {
    atomic_init(&s->refs, 1);
    s->free = free;
}

static inline void *shared_take(void *object) { // NULL is fine
    if (object)
        atomic_fetch_add_explicit(&((shared *)object)->refs, 1, memory_order_relaxed);
    return object;
}

static inline void shared_drop(void *object) { // NULL is fine
    shared *s = object;
    if (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
        s->free(object);
}

#endif
