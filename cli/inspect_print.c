// An inspection for people: 80 columns of text, or Markdown.
#include "cli/inspect_print.h"

#include "cli/wrap.h"
#include "core/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = WRAP_COLUMNS, LABEL = 16, SHAPE = 10 };

typedef struct writer {
    const output *out;
    bool md;
} writer;

static void section(const writer *w, const char *title) {
    output_print(w->out, w->md ? "\n## %s\n\n" : "\n%s\n", title);
}

static void fact(const writer *w, const char *label, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void fact(const writer *w, const char *label, const char *fmt, ...) {
    char text[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (w->md) {
        // blanks in front of a label make it an item below the last one
        output_print(w->out, "%s- %s: %s\n", *label == ' ' ? "  " : "", label + strspn(label, " "),
                     text);
        return;
    }
    output_print(w->out, "  %-*s  ", LABEL, label);
    wrap_print(w->out, text, LABEL + 4, LABEL + 4);
}

static void item(const writer *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void item(const writer *w, const char *fmt, ...) {
    char text[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    output_print(w->out, w->md ? "- " : "  ");
    if (w->md)
        output_print(w->out, "%s\n", text);
    else
        wrap_print(w->out, text, 2, 4);
}

static const char *bytes_text(int64_t n, char *buf, size_t size) {
    static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB"};
    double v = (double)n / 1024;
    int k = 0;
    for (; v >= 1024 && k < 3; k++)
        v /= 1024;
    if (n < 1024)
        snprintf(buf, size, "%" PRId64 " byte%s", n, n == 1 ? "" : "s");
    else
        snprintf(buf, size, "%" PRId64 " bytes (%.1f %s)", n, v, unit[k]);
    return buf;
}

const char *inspect_decay_word(decay_kind k) {
    return k == DECAY_NONE   ? "none"
           : k == DECAY_HEAD ? "one factor a head"
                             : "one factor a key channel";
}

const char *inspect_erase_word(erase_kind k) {
    return k == ERASE_NONE  ? "nothing is erased"
           : k == ERASE_KEY ? "along the key that is written"
                            : "along a pair of vectors of its own";
}

// Sizes --------------------------------------------------------------------------------------

static void print_number(const writer *w, const char *label, int64_t v, const char *unit) {
    if (v >= 0)
        fact(w, label, "%" PRId64 "%s", v, unit);
}

static void print_sizes(const writer *w, const inspection *x) {
    char size[64], file_bytes[64];
    int64_t on_disk = 0;
    for (int i = 0; i < ckpt_files(x->c); i++)
        on_disk += (int64_t)ckpt_file_bytes(x->c, i);
    section(w, "sizes");
    print_number(w, "layers", x->layers, "");
    print_number(w, "hidden width", x->hidden, "");
    if (x->m)
        fact(w, "vocabulary", "%" PRId64 ", head %s", x->m->info.n_vocab,
             x->m->info.tied ? "tied to the embedding" : "of its own");
    else if (x->embedding)
        fact(w, "vocabulary", "%" PRId64 " embedding rows", x->embedding->dims[0]);
    else
        print_number(w, "vocabulary", x->n_vocab, "");
    if (x->cfg && x->train_length <= 0)
        fact(w, "training length", "the config names none (--train-length)");
    else
        print_number(w, "training length", x->train_length, " tokens");
    if (x->bos >= 0 || x->eos >= 0) {
        char bos[24] = "none", eos[24] = "none";
        if (x->bos >= 0)
            snprintf(bos, sizeof bos, "%" PRId64, x->bos);
        if (x->eos >= 0)
            snprintf(eos, sizeof eos, "%" PRId64, x->eos);
        fact(w, "BOS, EOS", "%s, %s", bos, eos);
    }
    fact(w, "tensors", "%" PRId64 ", %s", ckpt_count(x->c),
         bytes_text((int64_t)x->bytes, size, sizeof size));
    fact(w, "parameters", "%" PRId64, x->parameters);
    for (int i = 0; i < x->n_dtypes; i++)
        fact(w, i && !w->md ? "" : "by dtype", "%s: %" PRId64 " in %" PRId64 " tensor%s, %s",
             text_show(x->dtype[i].type), x->dtype[i].count, x->dtype[i].tensors,
             x->dtype[i].tensors == 1 ? "" : "s",
             bytes_text((int64_t)x->dtype[i].bytes, size, sizeof size));
    if (ckpt_files(x->c) > 1)
        fact(w, "files", "%d, %s", ckpt_files(x->c),
             bytes_text(on_disk, file_bytes, sizeof file_bytes));
}

static void print_mixer(const writer *w, const layer_kind *k) {
    const head_shape *s = &k->body->heads;
    char size[64];
    fact(w, "  heads", "%d (H), %d for keys (Hk), K %d, V %d, n_h %d", s->H, s->Hk, s->K, s->V,
         s->n_h);
    fact(w, "  decay", "%s", inspect_decay_word(s->decay));
    if (s->beta_max > 0)
        fact(w, "  erase", "%s, beta from 0 to %g", inspect_erase_word(s->erase), s->beta_max);
    else
        fact(w, "  erase", "%s%s", inspect_erase_word(s->erase),
             s->erase == ERASE_KEY ? ", beta = 1" : "");
    fact(w, "  state", "%s a layer = %d x %d x %d x 4%s",
         bytes_text(k->state_bytes, size, sizeof size), s->H, s->K, s->V,
         s->n_h > 1 ? " (n_h does not enlarge it)" : "");
}

static void print_layers(const writer *w, const inspection *x) {
    char size[64], more[64];
    int64_t states = 0, others = 0;
    if (!x->n_kinds)
        return;
    section(w, "layers");
    for (size_t i = 0; i < x->n_kinds; i++) {
        const layer_kind *k = &x->kind[i];
        char label[64];
        snprintf(label, sizeof label, "layer%s %.40s", k->n == 1 ? "" : "s", k->layers);
        fact(w, label, "%s%s", k->body->kind,
             k->body->linear || k->growing == 0 ? "" : ", sees the whole row");
        states += k->n * k->state_bytes;
        others += k->n * k->carry_count * 4;
        if (k->body->linear)
            print_mixer(w, k);
        if (k->body->window)
            fact(w, "  window", "%" PRId64 " tokens", k->body->window);
        if (k->carry_count)
            fact(w, k->body->window ? "  keys, values" : "  last rows", "%s a layer",
                 bytes_text(k->carry_count * 4, size, sizeof size));
        if (k->growing)
            fact(w, "  keys, values", "%s a layer and token",
                 bytes_text(k->growing * 4, size, sizeof size));
    }
    fact(w, "all states", "%s in float32", bytes_text(states, size, sizeof size));
    if (others)
        fact(w, "with the rest", "%s carried from token to token",
             bytes_text(states + others, more, sizeof more));
}

static void print_need(const writer *w, const inspection *x, const inspect_look *look) {
    const memory_need *n = look->need;
    char size[64];
    int64_t on_disk = 0;
    section(w, "memory of a run (nothing was computed)");
    for (int i = 0; i < ckpt_files(x->c); i++)
        on_disk += (int64_t)ckpt_file_bytes(x->c, i);
    fact(w, "for", "rows of %" PRId64 " tokens in blocks of %" PRId64 ", %s", n->length, n->block,
         precision_name((precision)look->precision));
    fact(w, "reads", "%s in %d file%s", bytes_text(on_disk, size, sizeof size), ckpt_files(x->c),
         ckpt_files(x->c) == 1 ? "" : "s");
    fact(w, "weights", "%s", bytes_text(n->weights, size, sizeof size));
    fact(w, "carried", "%s (states, convolution tails, attention windows)",
         bytes_text(n->carries, size, sizeof size));
    fact(w, "activations", "about %s", bytes_text(n->activations, size, sizeof size));
    fact(w, "losses", "%s a row", bytes_text(n->losses, size, sizeof size));
    fact(w, "together", "about %s, besides the program and the mapped file",
         bytes_text(n->total, size, sizeof size));
    fact(w, "while loading", "another %s for a moment", bytes_text(n->loading, size, sizeof size));
    fact(w, "erank", "adds %s a row", bytes_text(n->erank, size, sizeof size));
}

// Findings -----------------------------------------------------------------------------------

// Alone, a tensor keeps its name: the number says where it stands.
static const char *pattern_of(const tensor_group *g) {
    return g->n == 1 ? g->of->name : g->pattern;
}

static void print_missing(const writer *w, const inspection *x) {
    char names[3500];
    for (size_t i = 0, k; i < x->n_missing; i = k) {
        const missing_group *g = &x->missing[i];
        size_t at = 0;
        // Whole layers that are not there are one item.
        for (k = i; k < x->n_missing && at + 700 < sizeof names; k++) {
            const missing_group *h = &x->missing[k];
            if (k > i && (!g->numbers[0] || g->nearest[0] || h->nearest[0] ||
                          strcmp(g->numbers, h->numbers) != 0))
                break;
            snprintf(names + at, sizeof names - at, "%s%s", k > i ? ", " : "",
                     text_show(h->pattern));
            at += strlen(names + at);
        }
        item(w, "! %s%s%s%s%s%s", names, g->numbers[0] ? " in layers " : "", g->numbers,
             g->nearest[0] ? " (nearest: " : "", g->nearest, g->nearest[0] ? ")" : "");
    }
}

static void print_findings(const writer *w, const inspection *x) {
    char name[600];
    if (x->n_findings) {
        section(w, "findings");
        for (int wrong = 1; wrong >= 0; wrong--)
            for (size_t i = 0; i < x->n_findings; i++)
                if (x->finding[i].wrong == wrong)
                    item(w, "%s%s", wrong ? "! " : "", x->finding[i].text);
    }
    if (x->n_missing) {
        section(w, "missing: the family needs them, the file lacks them");
        print_missing(w, x);
    }
    if (x->leftover.n) {
        section(w, "left over: in the file, and nothing reads them");
        for (size_t i = 0; i < x->leftover.n; i++) {
            const tensor_group *g = &x->leftover.v[i];
            bool many = g->n > 1 && g->numbers[0];
            text_escape(pattern_of(g), strlen(pattern_of(g)), name, sizeof name);
            item(w, "! %s%s%s", name, many ? " in layers " : "", many ? g->numbers : "");
        }
    }
    if (!x->m && x->type[0] && ckpt_count(x->c))
        item(w, "not checked: which tensors and config keys are read, state bytes");
}

static void print_tokenizer(const writer *w, const inspection *x) {
    const tokenizer_facts *f = &x->tokenizer;
    char size[64], list[1024] = "";
    section(w, "tokenizer");
    if (!f->path) {
        item(w, "no tokenizer beside the model: documents must be .npy files of ids");
        return;
    }
    const char *slash = strrchr(f->path, '/');
    fact(w, "file", "%s, %s", text_show(slash ? slash + 1 : f->path),
         bytes_text((int64_t)f->bytes, size, sizeof size));
    if (f->kind[0])
        fact(w, "kind", "%s", f->kind);
    if (!f->loaded) {
        if (!f->size && f->kind[0] && f->bytes)
            item(w, "not loaded%s", f->special.n ? "" : " (--full loads a large one)");
        return;
    }
    fact(w, "ids", "%d", f->size);
    for (size_t i = 0; i < f->special.n; i++) {
        size_t at = strlen(list);
        if (at + strlen(f->special.v[i]) + 32 > sizeof list || i == 24) {
            snprintf(list + at, sizeof list - at, " ... (%zu)", f->special.n);
            break;
        }
        snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", f->special.v[i]);
    }
    if (f->special.n)
        fact(w, "special", "%s", list);
    if (f->adds[0])
        fact(w, "adds", "%s", f->adds);
}

// Tensors ------------------------------------------------------------------------------------

static const char *shape_of(const tensor *t, char *buf, size_t size) {
    return tensor_shape_text(t, buf, size);
}

// Where most folded groups stand: worth no column.
static const char *usual_layers(const tensor_groups *g) {
    const char *usual = "";
    int64_t most = 0;
    for (size_t i = 0; i < g->n; i++) {
        const tensor_group *t = &g->v[i];
        int64_t layers = 0;
        for (int64_t k = 0; t->number && k < t->n; k++) // experts name a layer many times
            layers += k == 0 || t->number[k] != t->number[k - 1];
        if (layers > most) {
            most = layers;
            usual = t->numbers;
        }
    }
    return usual;
}

static void group_name(const tensor_group *g, char *buf, size_t size) {
    text_escape(pattern_of(g), strlen(pattern_of(g)), buf, size);
    size_t at = strlen(buf);
    if (g->n > 1 && at + 16 < size)
        snprintf(buf + at, size - at, " [%" PRId64 "]", g->n);
}

static bool stands_apart(const tensor_group *t, const char *usual) {
    return t->number && t->n > 1 && strcmp(t->numbers, usual) != 0;
}

static void tensor_rows(const writer *w, const tensor_groups *g) {
    char name[640], shape[160];
    const char *usual = usual_layers(g);
    // Names have what dtype, shape and layers leave; longer ones take a line of their own.
    int width = 20, rest = 0;
    for (size_t i = 0; i < g->n; i++) {
        int n = (int)strlen(shape_of(g->v[i].of, shape, sizeof shape));
        if (stands_apart(&g->v[i], usual))
            n = (n < SHAPE ? SHAPE : n) + 4 + (int)strlen(g->v[i].numbers);
        rest = n > rest ? n : rest;
    }
    for (size_t i = 0; i < g->n; i++) {
        group_name(&g->v[i], name, sizeof name);
        int n = wrap_columns(name, strlen(name));
        if (n <= COLUMNS - 10 - rest && n > width)
            width = n;
    }
    for (size_t i = 0; i < g->n; i++) {
        const tensor_group *t = &g->v[i];
        group_name(t, name, sizeof name);
        int n = wrap_columns(name, strlen(name));
        bool apart = stands_apart(t, usual);
        shape_of(t->of, shape, sizeof shape);
        output_print(w->out, "  %s", name);
        if (n > width)
            output_print(w->out, "\n  %*s", width, "");
        else
            output_print(w->out, "%*s", width - n, "");
        output_print(w->out, "  %-5s %s", text_show(t->of->type_name), shape);
        if (apart)
            output_print(w->out, "%*s in %s",
                         strlen(shape) < SHAPE ? (int)(SHAPE - strlen(shape)) : 0, "", t->numbers);
        output_print(w->out, "\n");
    }
}

// A pipe ends a cell and a backtick ends code, so both are written another way.
static void cell(const writer *w, const char *s) {
    output_print(w->out, "`");
    for (; *s; s++)
        if (*s == '|')
            output_print(w->out, "\\|");
        else if (*s == '`')
            output_print(w->out, "\\x60");
        else
            output_print(w->out, "%c", *s);
    output_print(w->out, "`");
}

static void tensor_table(const writer *w, const tensor_groups *g) {
    char name[640], shape[160];
    output_print(w->out, "| tensor | members | dtype | shape | elements | layers |\n"
                         "|---|---:|---|---|---:|---|\n");
    for (size_t i = 0; i < g->n; i++) {
        const tensor_group *t = &g->v[i];
        text_escape(pattern_of(t), strlen(pattern_of(t)), name, sizeof name);
        output_print(w->out, "| ");
        cell(w, name);
        output_print(w->out, " | %" PRId64 " | ", t->n);
        cell(w, text_show(t->of->type_name));
        output_print(w->out, " | %s | %" PRId64 " | %s |\n", shape_of(t->of, shape, sizeof shape),
                     t->count, t->numbers);
    }
}

static void print_tensors(const writer *w, const inspection *x) {
    int64_t all = ckpt_count(x->c);
    char title[96] = "tensors";
    if (x->n_selected < all)
        snprintf(title, sizeof title, "tensors (%" PRId64 " of %" PRId64 " selected)",
                 x->n_selected, all);
    else if (x->groups.n < (size_t)all)
        snprintf(title, sizeof title, "tensors (layers folded: # [members])");
    section(w, title);
    if (all == 0)
        item(w, "the file holds no tensors");
    else if (x->n_selected == 0)
        item(w, "no tensor matches --include and --exclude (a glob is for the whole name)");
    else if (w->md)
        tensor_table(w, &x->groups);
    else
        tensor_rows(w, &x->groups);
}

static void print_stats(const writer *w, const inspection *x) {
    char name[600], shape[160];
    section(w, "statistics of finite values");
    if (w->md)
        output_print(w->out,
                     "| tensor | min | 1 %% | median | 99 %% | max | mean | std | NaN | Inf "
                     "|\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    else
        output_print(w->out, "  %10s %10s %10s %10s %10s %10s %10s\n", "min", "1 %", "median",
                     "99 %", "max", "mean", "std");
    for (int64_t i = 0; i < ckpt_count(x->c); i++) {
        const tensor *t = ckpt_at(x->c, i);
        const tensor_stats *s = &x->stats[i];
        if (!x->selected[i])
            continue;
        text_escape(t->name, strlen(t->name), name, sizeof name);
        if (w->md) {
            output_print(w->out, "| ");
            cell(w, name);
            output_print(w->out,
                         " | %.4g | %.4g | %.4g | %.4g | %.4g | %.4g | %.4g | %" PRId64
                         " | %" PRId64 " |\n",
                         s->min, s->q01, s->q50, s->q99, s->max, s->mean, s->std, s->nan, s->inf);
            continue;
        }
        output_print(w->out, "  %s %s %s", name, text_show(t->type_name),
                     shape_of(t, shape, sizeof shape));
        if (s->nan + s->inf)
            output_print(w->out, "  ! %" PRId64 " NaN, %" PRId64 " Inf", s->nan, s->inf);
        if (!s->read)
            output_print(w->out, "  (no float type: not read)");
        output_print(w->out, "\n");
        if (s->read && s->finite)
            output_print(w->out, "  %10.3g %10.3g %10.3g %10.3g %10.3g %10.3g %10.3g\n", s->min,
                         s->q01, s->q50, s->q99, s->max, s->mean, s->std);
    }
}

// Metadata and config ------------------------------------------------------------------------

static void print_metadata(const writer *w, const inspection *x, bool full) {
    int n = ckpt_metadata_count(x->c);
    if (n == 0)
        return;
    section(w, "metadata");
    for (int i = 0; i < n; i++) {
        const char *key = text_show(ckpt_metadata_key(x->c, i)),
                   *value = ckpt_metadata_value(x->c, i);
        size_t bytes = strlen(value), used = strlen(key) + 4;
        size_t room = full ? 8 * bytes + 8 : used + 24 > COLUMNS ? 24 : COLUMNS - used + 1;
        char *shown = malloc(room);
        if (!shown)
            continue;
        text_escape(value, bytes, shown, room);
        output_print(w->out, w->md ? "- %s: %s\n" : "  %s: %s\n", key, shown);
        free(shown);
    }
}

static void print_unread(const writer *w, const inspection *x) {
    char list[4000] = "";
    if (!x->m || x->n_unread + x->n_routine == 0)
        return;
    section(w, "config keys that nothing read");
    for (int i = 0; i < x->n_unread; i++) {
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", text_show(x->unread[i]));
    }
    if (x->n_unread)
        item(w, "%s", list);
    item(w, "%s%d key%s empty or book-keeping of the training library", x->n_unread ? "and " : "",
         x->n_routine, x->n_routine == 1 ? " that is" : "s that are");
}

void inspect_print(const output *out, const char *name, const inspection *x,
                   const inspect_look *look) {
    writer w = {out, look->markdown};
    char type[128] = "family not known";
    if (x->type[0])
        snprintf(type, sizeof type, "%s%s", text_show(x->type),
                 x->summary ? "" : " (not known here)");
    output_print(out, w.md ? "# %s: %s\n" : "%s: %s\n", text_show(name), type);
    if (x->summary)
        output_print(out, w.md ? "\n%s\n" : "  %s\n", x->summary);
    print_findings(&w, x);
    print_sizes(&w, x);
    print_layers(&w, x);
    if (look->need)
        print_need(&w, x, look);
    print_tokenizer(&w, x);
    print_tensors(&w, x);
    if (look->stats && x->stats && x->n_selected > 0)
        print_stats(&w, x);
    print_metadata(&w, x, look->full);
    print_unread(&w, x);
}
