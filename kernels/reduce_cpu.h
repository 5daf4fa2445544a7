// SPDX-License-Identifier: Apache-2.0
// Reductions on the host: many states side by side, which compilers keep in vector registers.
#pragma once

// In front of a block of lanes: GCC would merge two blocks (unroll and jam), and the states go through memory then.
#define HG_BLOCK __asm__ volatile("");

// A function that is compiled once, not where it is called.
#define HG_APART static __attribute__((noinline))

namespace hg {

// The largest power of two below N.
constexpr int below(const int n, const int p = 1) { return 2 * p < n ? below(n, 2 * p) : p; }

// N states become one: halves are put together again and again, of lengths that vectors have.
template <typename Op, int N>
struct Tree {
  enum { HALF = below(N) };
  template <typename S>
  HG_DEVICE S of(S* s) {
    HG_SIMD
    for (int j = 0; j < N - HALF; ++j) s[j] = Op::merge(s[j], s[j + HALF]);
    return Tree<Op, HALF>::of(s);
  }
};
template <typename Op>
struct Tree<Op, 1> {
  template <typename S>
  HG_DEVICE S of(S* s) { return s[0]; }
};

// The elements of a short row one after the other, as where such rows are turned to lie side by side: the same bits.
template <typename Op, typename T, int N>
struct Fold {
  HG_DEVICE T of(T* s) {
    if (N > 16 && N % 16 == 0) return Tree<Op, N>::of(s);
    for (int j = 1; j < N; ++j) s[0] = Op::merge(s[0], s[j]);
    return s[0];
  }
};

// The same where the number of elements is an argument.
template <typename Op, typename S>
HG_DEVICE S fold_some(S* s, Index n) {
  if (n <= 16 || n % 16 != 0) {
    for (Index j = 1; j < n; ++j) s[0] = Op::merge(s[0], s[j]);
    return s[0];
  }
  while (n > 1) {
    Index half = 1;
    while (2 * half < n) half *= 2;
    for (Index j = 0; j < n - half; ++j) s[j] = Op::merge(s[j], s[j + half]);
    n = half;
  }
  return s[0];
}

// Extremes of floats: as integers of the same order, a chain of single instructions. SIGN is -1 for the least.
template <typename T, typename I, int N, int SIGN>
struct FoldOrdered {
  HG_DEVICE T of(const T* s) {
    const I magnitude = limits<I>::high();
    I t[N] __attribute__((aligned(64)));
    HG_SIMD
    for (int j = 0; j < N; ++j) {
      const T v = SIGN < 0 ? -s[j] : s[j];
      I bits;
      __builtin_memcpy(&bits, &v, sizeof(T));
      bits ^= bits < 0 ? magnitude : 0;
      t[j] = v == v ? bits : magnitude;  // above everything: a NaN as well
    }
    I bits = Tree<Max<I>, N>::of(t);
    bits ^= bits < 0 ? magnitude : 0;
    T v;
    __builtin_memcpy(&v, &bits, sizeof(T));
    return SIGN < 0 ? -v : v;
  }
};
template <int N> struct Fold<Max<float>, float, N> : FoldOrdered<float, int, N, 1> {};
template <int N> struct Fold<Min<float>, float, N> : FoldOrdered<float, int, N, -1> {};
template <int N> struct Fold<Max<double>, double, N> : FoldOrdered<double, long long, N, 1> {};
template <int N> struct Fold<Min<double>, double, N> : FoldOrdered<double, long long, N, -1> {};

// N states of one reduction. Lane j takes the elements j, N + j, 2 N + j … of a row, or is a row of its own.
template <typename Op, typename T, int N>
struct Lanes {
  T s[N] __attribute__((aligned(64)));
  HG_METHOD void start(const Index) {
    HG_SIMD
    for (int j = 0; j < N; ++j) s[j] = Op::start();
  }
  HG_METHOD void add(const Index j, const T value, const Index) { s[j] = Op::add(s[j], value, 0); }
  HG_METHOD void merge(const Lanes& t) {
    HG_SIMD
    for (int j = 0; j < N; ++j) s[j] = Op::merge(s[j], t.s[j]);
  }
  // Lanes that are M apart have elements of the same row: each gets the state of all of them, a power of two.
  template <int M, int W = N / 2>
  HG_METHOD void merge_every() {
    if (W < M) return;
    HG_SIMD
    for (int j = 0; j < W; ++j) s[j] = Op::merge(s[j], s[j + W]);
    merge_every<M, (W > M ? W / 2 : 0)>();
    HG_SIMD
    for (int j = 0; j < W; ++j) s[j + W] = s[j];
  }
  HG_METHOD T result(const Index j) const { return s[j]; }
  HG_METHOD T fold(const Index) { return Fold<Op, T, N>::of(s); }
  // Of a row of `count` elements, which may be fewer than there are lanes.
  HG_METHOD T fold(const Index step, const Index count) { return count < N ? fold_some<Op>(s, count) : fold(step); }
};

// The same for the position of an extreme. A lane starts at the position of its first element, which all others
// are compared with: NaN beats numbers, and of equals the lower position wins; RISING says that it is the earlier.
// P holds every position.
template <typename T, typename P, bool LARGEST, bool RISING, int N>
struct ArgLanes {
  T value[N] __attribute__((aligned(64)));
  P at[N] __attribute__((aligned(64)));
  HG_METHOD void start(const Index first) {
    HG_SIMD
    for (int j = 0; j < N; ++j) {
      value[j] = LARGEST ? limits<T>::low() : limits<T>::high();
      at[j] = (P)first;
    }
  }
  template <bool EARLIER>
  HG_METHOD void take(const int j, const T v, const P p) {
    const T s = value[j];
    bool better = (LARGEST ? !(v <= s) : !(v >= s)) & (s == s);
    if (!EARLIER) better |= ((v == s) | ((v != v) & (s != s))) & (p < at[j]);
    value[j] = better ? v : s;
    at[j] = better ? p : at[j];
  }
  HG_METHOD void add(const Index j, const T v, const P p) { take<RISING>(j, v, p); }
  template <int M>
  HG_METHOD void half() {
    if (M == 1) return;
    HG_SIMD
    for (int j = 0; j < M - below(M); ++j) take<false>(j, value[j + below(M)], at[j + below(M)]);
    half<below(M)>();
  }
  HG_METHOD long long result(const Index j) const { return at[j]; }
  // Elements of neighbouring lanes are `step` positions apart.
  HG_METHOD long long fold(const P step) {
    HG_SIMD
    for (int j = 0; j < N; ++j) at[j] += j * step;
    half<N>();
    return at[0];
  }
  HG_METHOD long long fold(const P step, const Index) { return fold(step); }
};

// Tiles of short rows. `n` rows of W neighbours become W columns, `step` apart, and back. Compilers vectorise
// this for two to four columns, of which more are made again and again. What is moved are bits: an integer of
// the same size (which loses its attribute as the argument of a template).
template <int SIZE> struct Raw;
template <> struct Raw<1> { typedef unsigned char __attribute__((may_alias)) Type; };
template <> struct Raw<2> { typedef unsigned short __attribute__((may_alias)) Type; };
template <> struct Raw<4> { typedef unsigned int __attribute__((may_alias)) Type; };
template <> struct Raw<8> { typedef unsigned long long __attribute__((may_alias)) Type; };

template <int F, typename T>
HG_APART void split(T* to, const int step, const T* from, const Index n) {
  typename Raw<sizeof(T)>::Type* const t = (typename Raw<sizeof(T)>::Type*)to;
  const typename Raw<sizeof(T)>::Type* const s = (const typename Raw<sizeof(T)>::Type*)from;
  if (F <= 4) {
    HG_SIMD
    for (Index i = 0; i < n; ++i)
      for (int f = 0; f < F; ++f) t[f * step + i] = s[i * F + f];
  } else {
    for (Index i = 0; i < n; ++i)
      for (int f = 0; f < F; ++f) t[f * step + i] = s[i * F + f];
  }
}
template <int F, typename T>
HG_APART void join(T* to, const T* from, const int step, const Index n) {
  typename Raw<sizeof(T)>::Type* const t = (typename Raw<sizeof(T)>::Type*)to;
  const typename Raw<sizeof(T)>::Type* const s = (const typename Raw<sizeof(T)>::Type*)from;
  if (F <= 4) {
    HG_SIMD
    for (Index i = 0; i < n; ++i)
      for (int f = 0; f < F; ++f) t[i * F + f] = s[f * step + i];
  } else {
    for (Index i = 0; i < n; ++i)
      for (int f = 0; f < F; ++f) t[i * F + f] = s[f * step + i];
  }
}

// N: the most rows
template <int W, int N, typename T>
struct Tile {
  enum { F = W % 4 == 0 ? 4 : W % 3 == 0 ? 3 : W % 2 == 0 ? 2 : W, REST = W / F };
  HG_DEVICE void in(T* to, const int step, const T* from, const Index n) {
    if (REST == 1) return split<F>(to, step, from, n);
    T part[F][N * REST] __attribute__((aligned(64)));
    split<F>(part[0], N * REST, from, n * REST);
    for (int f = 0; f < F; ++f) Tile<REST, N, T>::in(to + f * step, step * F, part[f], n);
  }
  HG_DEVICE void out(T* to, const T* from, const int step, const Index n) {
    if (REST == 1) return join<F>(to, from, step, n);
    T part[F][N * REST] __attribute__((aligned(64)));
    for (int f = 0; f < F; ++f) Tile<REST, N, T>::out(part[f], from + f * step, step * F, n);
    join<F>(to, part[0], N * REST, n * REST);
  }
};
template <int N, typename T>
struct Tile<1, N, T> {
  HG_DEVICE void in(T*, const int, const T*, const Index) {}
  HG_DEVICE void out(T*, const T*, const int, const Index) {}
};

template <typename T>
HG_DEVICE void clear(T* t, const Index n) {
  for (Index i = 0; i < n; ++i) t[i] = T();
}

template <int W, int N, typename T>
HG_DEVICE void tile_in(T* to, const T* from, const Index n) { Tile<W, N, T>::in(to, N, from, n); }
template <int W, int N, typename T>
HG_DEVICE void tile_out(T* to, const T* from, const Index n) { Tile<W, N, T>::out(to, from, N, n); }

// Sums of some rows move into those of all rows.
template <int N, typename T>
HG_DEVICE void move_into(T* const all, T* const some) {
  HG_SIMD
  for (int i = 0; i < N; ++i) {
    all[i] += some[i];
    some[i] = T(0);
  }
}

}  // namespace hg
