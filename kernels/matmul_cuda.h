// SPDX-License-Identifier: Apache-2.0
// Matrix products: a block of threads computes a patch of ROWS x COLUMNS elements, three ways.
//
// Each leaves its sums in the patch in shared memory, in layers whose sum, taken in order, is the element: what
// epilogues read. Every element of a product is summed in the same order, whatever its row. Rows and columns that do
// not exist are computed from those at the edge, or from zeros, and stored nowhere.
#pragma once

namespace hg {

// The value of the thread whose number in the warp differs in the bits of `distance`.
template <typename C>
HG_DEVICE C of_lane(const C value, const int distance) {
  if constexpr (sizeof(C) < 4) {
    return (C)__shfl_xor_sync(0xffffffffu, (int)value, distance);
  } else {
    return __shfl_xor_sync(0xffffffffu, value, distance);
  }
}

// V elements at a distance of STEP from each other.
template <int V, long long STEP, typename T>
HG_DEVICE pack<T, V> strip(const T* p) {
  if constexpr (STEP == 1) {
    return load<V>(p);
  } else {
    pack<T, V> s;
    HG_UNROLL
    for (int v = 0; v < V; ++v) s.v[v] = p[v * STEP];
    return s;
  }
}

// Element `e` of a patch of SIZE.
template <int LAYERS, int SIZE, typename C>
HG_DEVICE C layers_sum(const C* patch, const int e) {
  C sum = patch[e];
  HG_UNROLL
  for (int p = 1; p < LAYERS; ++p) sum = plus(sum, patch[p * SIZE + e]);
  return sum;
}

// One element by one thread: the sum over k of a[k * SA] * b[k * SB].
template <typename C, int K, long long SA, long long SB, typename T>
HG_DEVICE C product_element(const T* a, const T* b) {
  C sum = 0;
  for (int k = 0; k < K; ++k) sum = plus_product(sum, (C)a[k * SA], (C)b[k * SB]);
  return sum;
}

// Few rows times columns that are contiguous along the sum (the weight of a dense layer): LANES threads read V
// neighbours of each of EACH columns at once and use them for every row. If LANES is 32, so many LAYERS of warps may
// share a column. `a` begins at the patch's first row (rows are LA apart, neighbours along the sum SA), `b` at its
// first column (columns are LB apart).
template <int ROWS, int EACH, int LANES, int LAYERS, int WARPS, int V, int K, long long LA, long long SA, long long LB,
          typename C, typename T>
HG_DEVICE void dots(const T* a, const T* b, const int rows, const int columns, C* patch) {
  constexpr int WIDTH = WARPS / LAYERS * (32 / LANES) * EACH;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % LANES, layer = warp % LAYERS;
  const int first = (warp / LAYERS * (32 / LANES) + threadIdx.x % 32 / LANES) * EACH;
  const T* column[EACH];
  C sum[ROWS][EACH];
  HG_UNROLL
  for (int c = 0; c < EACH; ++c) {
    column[c] = b + minimum(first + c, columns - 1) * LB;
    HG_UNROLL
    for (int r = 0; r < ROWS; ++r) sum[r][c] = 0;
  }
#pragma unroll (ROWS * EACH <= 8 ? 4 : ROWS * EACH <= 16 ? 2 : 1)
  for (int k = (layer * LANES + lane) * V; k < K; k += LAYERS * LANES * V) {
    pack<T, V> w[EACH];
    HG_UNROLL
    for (int c = 0; c < EACH; ++c) w[c] = load<V>(column[c] + k);
    HG_UNROLL
    for (int r = 0; r < ROWS; ++r) {
      const pack<T, V> x = strip<V, SA>(a + (ROWS == 1 ? 0 : minimum(r, rows - 1)) * LA + k * SA);
      HG_UNROLL
      for (int c = 0; c < EACH; ++c) {
        HG_UNROLL
        for (int v = 0; v < V; ++v) sum[r][c] = plus_product(sum[r][c], (C)x.v[v], (C)w[c].v[v]);
      }
    }
  }
  HG_UNROLL
  for (int r = 0; r < ROWS; ++r) {
    HG_UNROLL
    for (int c = 0; c < EACH; ++c) {
      HG_UNROLL
      for (int d = LANES / 2; d; d >>= 1) sum[r][c] = plus(sum[r][c], of_lane(sum[r][c], d));
      if (lane == 0) patch[(layer * ROWS + r) * WIDTH + first + c] = sum[r][c];
    }
  }
}

// Few rows times columns that are neighbours in memory: LANES threads take V columns each, and the sum is shared out
// over the 32 * WARPS / LANES parts of the block, U neighbours along it at a time. LB is from one of these neighbours
// to the next, SB from column to column (1, or V is 1). One layer a warp.
template <int ROWS, int LANES, int WARPS, int V, int U, int K, long long LA, long long SA, long long LB, long long SB,
          typename C, typename T>
HG_DEVICE void axpy(const T* a, const T* b, const int rows, const int columns, C* patch) {
  constexpr int WIDTH = LANES * V;
  const int lane = threadIdx.x % LANES, warp = threadIdx.x / 32;
  const T* column = b + minimum(lane * V, columns - V) * SB;
  C sum[ROWS][V];
  HG_UNROLL
  for (int r = 0; r < ROWS; ++r) {
    HG_UNROLL
    for (int v = 0; v < V; ++v) sum[r][v] = 0;
  }
#pragma unroll (ROWS > 8 ? 1 : V * U * sizeof(T) <= 16 ? 4 : V * U * sizeof(T) <= 64 ? 2 : 1)
  for (int k = threadIdx.x / LANES * U; k < K; k += 32 * WARPS / LANES * U) {
    pack<T, V> w[U];
    HG_UNROLL
    for (int u = 0; u < U; ++u) w[u] = load<V>(column + (k + u) * LB);
    HG_UNROLL
    for (int r = 0; r < ROWS; ++r) {
      const pack<T, U> x = strip<U, SA>(a + (ROWS == 1 ? 0 : minimum(r, rows - 1)) * LA + k * SA);
      HG_UNROLL
      for (int u = 0; u < U; ++u) {
        HG_UNROLL
        for (int v = 0; v < V; ++v) sum[r][v] = plus_product(sum[r][v], (C)x.v[u], (C)w[u].v[v]);
      }
    }
  }
  HG_UNROLL
  for (int r = 0; r < ROWS; ++r) {
    HG_UNROLL
    for (int v = 0; v < V; ++v) {
      HG_UNROLL
      for (int d = LANES; d < 32; d *= 2) sum[r][v] = plus(sum[r][v], of_lane(sum[r][v], d));
      if (threadIdx.x % 32 < LANES) patch[(warp * ROWS + r) * WIDTH + lane * V + v] = sum[r][v];
    }
  }
}

// LINES x LENGTH elements on their way from memory to shared memory, V neighbours at a time; lines are LINE apart,
// neighbours STEP. What does not exist is zero.
template <int LINES, int LENGTH, int THREADS, int V, long long LINE, long long STEP, typename T>
struct Stage {
  static constexpr int PER_LINE = LENGTH / V, COUNT = LINES * PER_LINE / THREADS;
  pack<T, V> held[COUNT];

  HG_METHOD void fetch(const T* p, const int lines, const int length) {
    HG_UNROLL
    for (int i = 0; i < COUNT; ++i) {
      const int e = threadIdx.x + i * THREADS, line = e / PER_LINE, at = e % PER_LINE * V;
      if (line < lines && at < length) {
        held[i] = strip<V, STEP>(p + line * LINE + at * STEP);
      } else {
        HG_UNROLL
        for (int v = 0; v < V; ++v) held[i].v[v] = T();
      }
    }
  }

  // To `shared`, where lines are BY_LINE and neighbours BY_STEP apart.
  template <int BY_LINE, int BY_STEP, typename C>
  HG_METHOD void deposit(C* shared) const {
    HG_UNROLL
    for (int i = 0; i < COUNT; ++i) {
      const int e = threadIdx.x + i * THREADS, line = e / PER_LINE, at = e % PER_LINE * V;
      HG_UNROLL
      for (int v = 0; v < V; ++v) shared[line * BY_LINE + (at + v) * BY_STEP] = (C)held[i].v[v];
    }
  }
};

// One stage of an operand: DEPTH steps of the sum for WIDE rows (or columns), kept as [step][row] with PITCH elements
// a step. Rows are LINE apart in memory, steps STEP; ALONG: neighbours in memory are steps, else rows.
template <bool ALONG, int WIDE, int DEPTH, int THREADS, int V, int PITCH, long long LINE, long long STEP, typename T>
struct Operand {
  Stage<ALONG ? WIDE : DEPTH, ALONG ? DEPTH : WIDE, THREADS, V, ALONG ? LINE : STEP, ALONG ? STEP : LINE, T> stage;

  HG_METHOD void fetch(const T* p, const int k, const int depth, const int rows) {
    stage.fetch(p + k * STEP, ALONG ? rows : depth - k, ALONG ? depth - k : rows);
  }
  template <typename C>
  HG_METHOD void deposit(C* shared) const {
    stage.template deposit<ALONG ? 1 : PITCH, ALONG ? PITCH : 1>(shared);
  }
};

// Tiles of both operands pass through shared memory, DEPTH steps of the sum at a time, the next ones already under way
// in registers; GROUPS of threads take their share of each stage, TILE x TILE elements of the patch a thread. `memory`
// holds a stage of both operands first and GROUPS layers of the patch in the end.
template <int ROWS, int COLUMNS, int DEPTH, int GROUPS, int TILE, int VA, int VB, int K, bool ALONG_A, bool ALONG_B,
          long long LA, long long SA, long long LB, long long SB, typename C, typename T>
HG_DEVICE void tiles(const T* a, const T* b, const int rows, const int columns, C* memory) {
  constexpr int ACROSS = COLUMNS / TILE, GROUP = ROWS / TILE * ACROSS, THREADS = GROUP * GROUPS;
  constexpr int W = sizeof(C) * TILE > 16 ? 16 / sizeof(C) : TILE;
  constexpr int PITCH_A = ROWS + W, PITCH_B = COLUMNS + W, SHARE = DEPTH / GROUPS;
  C* const mine = memory;
  C* const theirs = memory + DEPTH * PITCH_A;
  Operand<ALONG_A, ROWS, DEPTH, THREADS, VA, PITCH_A, LA, SA, T> left;
  Operand<ALONG_B, COLUMNS, DEPTH, THREADS, VB, PITCH_B, LB, SB, T> right;
  const int group = threadIdx.x / GROUP, down = threadIdx.x % GROUP / ACROSS * TILE;
  const int across = threadIdx.x % ACROSS * TILE;
  C sum[TILE][TILE];
  HG_UNROLL
  for (int i = 0; i < TILE; ++i) {
    HG_UNROLL
    for (int j = 0; j < TILE; ++j) sum[i][j] = 0;
  }
  left.fetch(a, 0, K, rows);
  right.fetch(b, 0, K, columns);
  for (int k = 0; k < K; k += DEPTH) {
    left.deposit(mine);
    right.deposit(theirs);
    __syncthreads();
    if (k + DEPTH < K) {
      left.fetch(a, k + DEPTH, K, rows);
      right.fetch(b, k + DEPTH, K, columns);
    }
#pragma unroll 4
    for (int d = group * SHARE; d < (group + 1) * SHARE; ++d) {
      C x[TILE], y[TILE];
      HG_UNROLL
      for (int i = 0; i < TILE; i += W) {
        const pack<C, W> p = load<W>(mine + d * PITCH_A + down + i), q = load<W>(theirs + d * PITCH_B + across + i);
        HG_UNROLL
        for (int j = 0; j < W; ++j) {
          x[i + j] = p.v[j];
          y[i + j] = q.v[j];
        }
      }
      HG_UNROLL
      for (int i = 0; i < TILE; ++i) {
        HG_UNROLL
        for (int j = 0; j < TILE; ++j) sum[i][j] = plus_product(sum[i][j], x[i], y[j]);
      }
    }
    __syncthreads();
  }
  HG_UNROLL
  for (int i = 0; i < TILE; ++i) {
    HG_UNROLL
    for (int j = 0; j < TILE; ++j) memory[(group * ROWS + down + i) * COLUMNS + across + j] = sum[i][j];
  }
}

}  // namespace hg
