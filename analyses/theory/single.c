#include "analyses/theory/single.h"

#include "core/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Nats between the right answer and the next best.
#define NATS_APART 14.0

void single_free(single *s) {
    free(s->micro);
    free(s->wipe);
    free(s->answer);
    free(s->vectors);
    task_free(s->task);
    *s = (single){0};
}

bool single_init(single *s, word_task *task, int K, int V, int n_h, size_t vectors, err *e) {
    *s = (single){.task = task, .K = K, .V = V, .n_h = n_h, .room = vectors};
    if (!task)
        return false;
    size_t tokens = (size_t)task->n_inputs + (size_t)task->n_prefix;
    s->micro = mem_zalloc(tokens * (size_t)n_h, sizeof *s->micro, "micro-steps", e);
    s->wipe = mem_zalloc(tokens, sizeof *s->wipe, "gates", e);
    s->answer = mem_zalloc((size_t)task->n_states * (size_t)V, sizeof *s->answer, "answers", e);
    s->vectors = mem_zalloc(vectors + 1, sizeof *s->vectors, "keys and values", e);
    if (s->micro && s->wipe && s->answer && s->vectors)
        return true;
    single_free(s);
    return false;
}

const double *single_keep(single *s, const double *x, int n) {
    if (!x)
        return NULL;
    if (s->used + (size_t)n > s->room)
        abort(); // a construction that miscounted its own keys
    double *to = s->vectors + s->used;
    memcpy(to, x, (size_t)n * sizeof *x);
    s->used += (size_t)n;
    return to;
}

void single_set(single *s, int id, int j, double beta, const double *key, const double *v) {
    s->micro[id * s->n_h + j] = (micro){beta, single_keep(s, key, s->K), single_keep(s, v, s->V)};
}

static void normalise(double *x, int rows, int n) {
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int i = 0; i < n; i++)
            sum += x[r * n + i] * x[r * n + i];
        for (int i = 0; i < n; i++)
            x[r * n + i] /= sqrt(sum);
    }
}

static void fill(single *s, product_model *m, double margin) {
    const product_sizes *p = &m->s;
    int tokens = s->task->n_inputs + s->task->n_prefix;
    net_embed(m);
    if (p->forget)
        net_gate_bias(m, 0);
    for (int id = 0; id < tokens; id++) {
        source one = {.at = id, .value = sqrt(p->D), .ms = 1};
        net_query(m, 0, 0, &one, s->q);
        for (int j = 0; j < s->n_h; j++)
            net_micro(m, 0, 0, j, &one, &s->micro[id * s->n_h + j]);
        if (s->wipe[id])
            net_wipe(m, 0, 0, &one);
    }
    net_output(m, 0, 0, p->n_vocab, s->V);
    double ms = 1 + (double)s->V / p->D, scale = NATS_APART / (margin * sqrt(s->V));
    for (int a = 0; a < s->task->n_states; a++)
        net_template(m, s->task->answer_id[a], p->n_vocab, s->answer + a * s->V, s->V, scale, ms);
}

bool single_build(single *s, theory_built *b, err *e) {
    *b = (theory_built){0};
    int n_vocab = task_last_id(s->task) + 1;
    product_sizes p = {
        .D = (n_vocab + s->V + 15) / 16 * 16,
        .n_vocab = n_vocab,
        .n_layers = 1,
        .H = 1,
        .K = s->K,
        .V = s->V,
        .n_h = s->n_h,
        .inter = 16,
        .bos = s->task->prefix[0],
        .train_length = 4096,
    };
    for (int id = 0; id < s->task->n_inputs + s->task->n_prefix; id++)
        p.forget |= s->wipe[id];
    normalise(s->answer, s->task->n_states, s->V);
    b->margin = 1 - net_worst_cosine(s->answer, s->task->n_states, s->V);
    b->m = product_new(&p, e);
    if (b->m) {
        fill(s, b->m, b->margin);
        s->task->train_length = p.train_length;
        b->task = s->task;
        s->task = NULL;
    }
    single_free(s);
    return b->m != NULL;
}
