// cli/dash/heads_table.h - panel 1 as a table: one row a head, all numbers, any order.
#ifndef DELTOP_DASH_HEADS_TABLE_H
#define DELTOP_DASH_HEADS_TABLE_H

#include "cli/dash/scene.h"

// r: the panel with its title row.
void heads_table_draw(surface *s, rect r, const scene *x);
// The head (index in the run) in row y of the screen; -1: none.
int heads_table_at(rect r, const scene *x, int y);

#endif
