// analyses/spectrum_draw.h - the pictures of a spectrum, one function a kind; shared by the
// spectrum_*.c files only.
#ifndef DELTOP_ANALYSES_SPECTRUM_DRAW_H
#define DELTOP_ANALYSES_SPECTRUM_DRAW_H

#include "analyses/spectrum.h"

enum { SPECTRUM_MANY_LAYERS = 8 }; // more layers than this are drawn as one series

typedef enum { PLANE_TOKENS, PLANE_MIDDLE, PLANE_LONG } spectrum_plane;

// Eigenvalues in the complex plane. NULL with *e filled on failure, NULL with *e empty when the
// result has no such window.
figure *spectrum_draw_plane(const spectrum_item *x, size_t index, spectrum_plane which, err *e);
// Moduli of single tokens and of windows without frozen directions.
figure *spectrum_draw_moduli(const spectrum_item *x, size_t index, err *e);
// Norm beside radius against W (G14).
figure *spectrum_draw_norms(const spectrum_item *x, size_t index, err *e);
// Of all items together:
figure *spectrum_draw_angles(const spectrum_item *x, size_t n, err *e);
figure *spectrum_draw_reals(const spectrum_item *x, size_t n, err *e);
figure *spectrum_draw_ledger(const spectrum_item *x, size_t n, err *e);
figure *spectrum_draw_lyapunov(const spectrum_item *x, size_t n, err *e);
figure *spectrum_draw_half_lives(const spectrum_item *x, size_t n, err *e);
figure *spectrum_table_heads(const spectrum_item *x, size_t n, err *e);
figure *spectrum_table_windows(const spectrum_item *x, size_t n, err *e);

// Index of a window that shows K x K behaviour: the shortest with at least `least` tokens and, with
// whole = true, no frozen direction in any layer. -1: none. Only windows with a product count.
int spectrum_pick_window(const spectrum_result *r, int64_t least, bool whole);
bool spectrum_has_products(const spectrum_result *r, int window);

// f when everything went well; else frees it and returns NULL.
figure *spectrum_drawn(figure *f, bool ok);

#endif
