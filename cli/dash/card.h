// cli/dash/card.h - what a model is, from its headers alone: known before any device is opened.
#ifndef DELTOP_DASH_CARD_H
#define DELTOP_DASH_CARD_H

#include "analyses/inspect.h"

typedef struct card {
    char *path, *name; // name: for people, escaped
    inspection x;
    int n_layers, widest; // widest: heads of the widest layer
    int *heads;           // [n_layers] value heads, 0: no recurrent state
    int n_heads;
    head_shape s; // of the first layer that has one; K = 0: none
    int64_t train_length;
    char line[2][256]; // header fields: "DeltaProduct n_h=3", "6 layers x 4 heads, K=V=64" ...
} card;

// train_length 0: the config's. NULL: *e is filled.
card *card_open(const char *path, int64_t train_length, err *e);
void card_free(card *c);                         // NULL is fine
head_shape card_shape(const card *c, int layer); // K = 0: no recurrent state

#endif
