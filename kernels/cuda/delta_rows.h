// kernels/cuda/delta_rows.h - rows of a call (delta.cu): where their tokens, chunks, segments and boundary states lie.
//
// Rows of equal length need no table. Others have one on the device, longest first, so that what takes longest
// begins first, and so that the rows with more than n segments are its first ones for every n.
#ifndef DELTOP_CUDA_DELTA_ROWS_H
#define DELTOP_CUDA_DELTA_ROWS_H

#include "kernels/cuda/delta_tile.h"

HOPPER_DEVICE delta_row row_of(const delta_call &s, int i) {
    if (s.table)
        return s.table[i];
    const int T = (int)s.T;
    return {i * T, T, s.chunks, i, 0, i * s.chunks, i * s.segments, i * s.boundaries};
}
// The same for every layout.
static __host__ __device__ __forceinline__ int segments_of(const delta_call &s,
                                                           const delta_row &row) {
    return segments_of(row.chunks, s.layout[LAYOUTS]);
}

// Which gates are those of a chunk of a row.
HOPPER_DEVICE int gates_of(const delta_call &s, const delta_row &row, int head, int chunk) {
    return row.chunk0 * s.H + head * row.chunks + chunk;
}

// The row that a chunk belongs to, chunks of all rows counted; a whole warp asks.
HOPPER_DEVICE int row_with_chunk(const delta_call &s, int chunk, int lane) {
    if (!s.table)
        return chunk / s.chunks;
    int first = 0, end = s.n_rows;
    while (end - first > 1) {
        const int step = (end - first + 31) / 32, at = first + lane * step;
        const bool before = at < end && s.table[at].chunk0 <= chunk;
        first += (__popc(__ballot_sync(~0u, before)) - 1) * step;
        end = min(end, first + step);
    }
    return first;
}

// Segments with a segment before and one behind them, by their numbers and then by rows: which one is
// number i?
HOPPER_DEVICE int row_with_inner(const delta_call &s, int i, int *segment) {
    int n = 1;
    for (; i >= s.longer[n + 1]; n++)
        i -= s.longer[n + 1];
    *segment = n;
    return i;
}

// Rows come as parameters, so that no copy from the host has to be waited for: as many as a kernel of any device takes.
enum { ROWS_AT_ONCE = 124 };
struct row_batch {
    delta_row row[ROWS_AT_ONCE];
};
static_assert(sizeof(row_batch) + 16 <= 4096, "parameters of a kernel");
static __global__ void lay_rows(const __grid_constant__ row_batch from, int n, delta_row *to) {
    if ((int)threadIdx.x < n)
        to[threadIdx.x] = from.row[threadIdx.x];
}

static cudaError_t lay_table(const delta_call &s, delta_row *to, cudaStream_t stream) {
    int chunks = 0, pieces = 0;
    for (int i = 0; i < s.n_rows; i += ROWS_AT_ONCE) {
        row_batch batch = {};
        const int n = min((int)ROWS_AT_ONCE, s.n_rows - i);
        for (int j = 0; j < n; j++) {
            delta_row r = s.rows[i + j];
            r.chunk0 = chunks;
            r.piece0 = pieces;
            chunks += r.chunks;
            pieces += segments_of(s, r);
            batch.row[j] = r;
        }
        lay_rows<<<1, ROWS_AT_ONCE, 0, stream>>>(batch, n, to + i);
    }
    return cudaGetLastError();
}

#endif
