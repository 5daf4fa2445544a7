// SPDX-License-Identifier: Apache-2.0
// Matrix products: a block of threads computes a patch of ROWS x COLUMNS elements, three ways.
//
// Each leaves its sums in the patch in shared memory, in layers whose sum, taken in order, is the element: what
// epilogues read. Every element of a product is summed in the same order, whatever its row. Rows and columns that do
// not exist are computed from those at the edge, or from zeros, and stored nowhere. `depth` is the number of terms of a
// sum: a constant, or an argument of the kernel.
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

// An operand is a pointer to its first element, where lines (rows of the left one, columns of the right one) are LINE
// apart and neighbours along the sum STEP; or a loader, a lambda that computes V neighbours from the number of a line
// and a place along the sum. These are along the sum, or along lines.
template <int V, long long LINE, long long STEP, bool ALONG = true, typename T>
HG_DEVICE pack<T, V> elements(const T* p, const int line, const int k) {
  return strip<V, ALONG ? STEP : LINE>(p + line * LINE + k * STEP);
}
template <int V, long long LINE, long long STEP, bool ALONG = true, typename F>
HG_DEVICE auto elements(const F& loader, const int line, const int k) -> decltype(loader(line, k)) {
  return loader(line, k);
}

template <typename P>
struct is_loader {
  static constexpr bool value = true;
};
template <typename T>
struct is_loader<const T*> {
  static constexpr bool value = false;
};

// How many steps of a sum are loaded at once, of UNROLLED that pointers' would be: loaders of several rows need their
// registers for what they compute.
template <int ROWS, int UNROLLED, typename A, typename B>
HG_DEVICE constexpr int unrolled() {
  return ROWS > 1 && (is_loader<A>::value || is_loader<B>::value) ? 1 : UNROLLED;
}

// One line of an operand.
template <typename F>
struct LoaderLine {
  const F* loader;
  int line;
};
template <long long LINE, typename T>
HG_DEVICE const T* line_of(const T* p, const int line) {
  return p + line * LINE;
}
template <long long LINE, typename F>
HG_DEVICE LoaderLine<F> line_of(const F& loader, const int line) {
  return {&loader, line};
}

// V neighbours of a line, NEXT apart, from place k along the sum on.
template <int V, long long NEXT, long long STEP, typename T>
HG_DEVICE pack<T, V> of_line(const T* line, const int k) {
  return strip<V, NEXT>(line + k * STEP);
}
template <int V, long long NEXT, long long STEP, typename F>
HG_DEVICE auto of_line(const LoaderLine<F>& l, const int k) -> decltype((*l.loader)(0, 0)) {
  return (*l.loader)(l.line, k);
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
template <typename C, long long SA, long long SB, typename A, typename B>
HG_DEVICE C product_element(const A& a, const B& b, const int depth) {
  C sum = 0;
  for (int k = 0; k < depth; ++k)
    sum = plus_product(sum, (C)elements<1, 0, SA>(a, 0, k).v[0], (C)elements<1, 0, SB>(b, 0, k).v[0]);
  return sum;
}

// Few rows times columns that are contiguous along the sum (the weight of a dense layer), or far apart in every way:
// LANES threads read V neighbours of each of EACH columns at once and use them for every row. If LANES is 32, so many
// LAYERS of warps may share a column. `a` begins at the patch's first row (rows are LA apart, neighbours along the sum
// SA), `b` at its first column (neighbours along the sum are LB apart, columns SB).
template <int ROWS, int EACH, int LANES, int LAYERS, int WARPS, int V, long long LA, long long SA, long long LB,
          long long SB, typename C, typename A, typename B>
HG_DEVICE void dots(const A& a, const B& b, const int depth, const int rows, const int columns, C* patch) {
  constexpr int WIDTH = WARPS / LAYERS * (32 / LANES) * EACH;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % LANES, layer = warp % LAYERS;
  const int first = (warp / LAYERS * (32 / LANES) + threadIdx.x % 32 / LANES) * EACH;
  decltype(line_of<SB>(b, 0)) column[EACH];
  C sum[ROWS][EACH];
  HG_UNROLL
  for (int c = 0; c < EACH; ++c) {
    column[c] = line_of<SB>(b, minimum(first + c, columns - 1));
    HG_UNROLL
    for (int r = 0; r < ROWS; ++r) sum[r][c] = 0;
  }
#pragma unroll (unrolled<ROWS, (ROWS * EACH <= 8 ? 4 : ROWS * EACH <= 16 ? 2 : 1), A, B>())
  for (int k = (layer * LANES + lane) * V; k < depth; k += LAYERS * LANES * V) {
    decltype(of_line<V, LB, LB>(column[0], 0)) w[EACH];
    HG_UNROLL
    for (int c = 0; c < EACH; ++c) w[c] = of_line<V, LB, LB>(column[c], k);
    HG_UNROLL
    for (int r = 0; r < ROWS; ++r) {
      const auto x = elements<V, LA, SA>(a, ROWS == 1 ? 0 : minimum(r, rows - 1), k);
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
template <int ROWS, int LANES, int WARPS, int V, int U, long long LA, long long SA, long long LB, long long SB,
          typename C, typename A, typename B>
HG_DEVICE void axpy(const A& a, const B& b, const int depth, const int rows, const int columns, C* patch) {
  constexpr int WIDTH = LANES * V;
  const int lane = threadIdx.x % LANES, warp = threadIdx.x / 32;
  const auto column = line_of<SB>(b, minimum(lane * V, columns - V));
  typedef decltype(of_line<V, 1, LB>(column, 0)) Neighbours;
  C sum[ROWS][V];
  HG_UNROLL
  for (int r = 0; r < ROWS; ++r) {
    HG_UNROLL
    for (int v = 0; v < V; ++v) sum[r][v] = 0;
  }
#pragma unroll (unrolled<ROWS, (ROWS > 8 ? 1 : U * sizeof(Neighbours) <= 16 ? 4 : U * sizeof(Neighbours) <= 64 ? 2 : 1), A, B>())
  for (int k = threadIdx.x / LANES * U; k < depth; k += 32 * WARPS / LANES * U) {
    Neighbours w[U];
    HG_UNROLL
    for (int u = 0; u < U; ++u) w[u] = of_line<V, 1, LB>(column, k + u);
    HG_UNROLL
    for (int r = 0; r < ROWS; ++r) {
      const auto x = elements<U, LA, SA>(a, ROWS == 1 ? 0 : minimum(r, rows - 1), k);
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

// One stage of an operand on its way to shared memory: DEPTH steps of the sum for WIDE rows (or columns), kept as
// [step][row] with PITCH elements a step. Rows are LINE apart in memory, steps STEP; a thread moves V neighbours at a
// time, along the sum or not. What does not exist is zero.
template <bool ALONG, int WIDE, int DEPTH, int THREADS, int V, int PITCH, long long LINE, long long STEP, typename P>
struct Operand {
  static constexpr int PER_LINE = (ALONG ? DEPTH : WIDE) / V, COUNT = WIDE * DEPTH / V / THREADS;
  typedef decltype(elements<V, LINE, STEP, ALONG>(*(const P*)0, 0, 0)) Neighbours;
  Neighbours held[COUNT];

  HG_METHOD void fetch(const P& p, const int k, const int depth, const int rows) {
    HG_UNROLL
    for (int i = 0; i < COUNT; ++i) {
      const int e = threadIdx.x + i * THREADS, line = e / PER_LINE, at = e % PER_LINE * V;
      const int row = ALONG ? line : at, step = k + (ALONG ? at : line);
      held[i] = row < rows && step < depth ? elements<V, LINE, STEP, ALONG>(p, row, step) : Neighbours();
    }
  }
  template <typename C>
  HG_METHOD void deposit(C* shared) const {
    HG_UNROLL
    for (int i = 0; i < COUNT; ++i) {
      const int e = threadIdx.x + i * THREADS, line = e / PER_LINE, at = e % PER_LINE * V;
      HG_UNROLL
      for (int v = 0; v < V; ++v)
        shared[ALONG ? (at + v) * PITCH + line : line * PITCH + at + v] = (C)held[i].v[v];
    }
  }
};

// Tiles of both operands pass through shared memory, DEPTH steps of the sum at a time, the next ones already under way
// in registers; GROUPS of threads take their share of each stage, TILE x TILE elements of the patch a thread. `memory`
// holds a stage of both operands first and GROUPS layers of the patch in the end.
template <int ROWS, int COLUMNS, int DEPTH, int GROUPS, int TILE, int VA, int VB, bool ALONG_A, bool ALONG_B,
          long long LA, long long SA, long long LB, long long SB, typename C, typename A, typename B>
HG_DEVICE void tiles(const A& a, const B& b, const int depth, const int rows, const int columns, C* memory) {
  constexpr int ACROSS = COLUMNS / TILE, GROUP = ROWS / TILE * ACROSS, THREADS = GROUP * GROUPS;
  constexpr int W = sizeof(C) * TILE > 16 ? 16 / sizeof(C) : TILE;
  constexpr int PITCH_A = ROWS + W, PITCH_B = COLUMNS + W, SHARE = DEPTH / GROUPS;
  C* const mine = memory;
  C* const theirs = memory + DEPTH * PITCH_A;
  Operand<ALONG_A, ROWS, DEPTH, THREADS, VA, PITCH_A, LA, SA, A> left;
  Operand<ALONG_B, COLUMNS, DEPTH, THREADS, VB, PITCH_B, LB, SB, B> right;
  const int group = threadIdx.x / GROUP, down = threadIdx.x % GROUP / ACROSS * TILE;
  const int across = threadIdx.x % ACROSS * TILE;
  C sum[TILE][TILE];
  HG_UNROLL
  for (int i = 0; i < TILE; ++i) {
    HG_UNROLL
    for (int j = 0; j < TILE; ++j) sum[i][j] = 0;
  }
  left.fetch(a, 0, depth, rows);
  right.fetch(b, 0, depth, columns);
  for (int k = 0; k < depth; k += DEPTH) {
    left.deposit(mine);
    right.deposit(theirs);
    __syncthreads();
    if (k + DEPTH < depth) {
      left.fetch(a, k + DEPTH, depth, rows);
      right.fetch(b, k + DEPTH, depth, columns);
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
