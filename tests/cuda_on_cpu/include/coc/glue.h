// SPDX-License-Identifier: Apache-2.0
// Entering a kernel: arguments come as an array of pointers, as for cuLaunchKernel.
#pragma once

#define COC_GLUE __attribute__((no_sanitize("thread", "alignment")))

namespace coc {
template <class... A, size_t... I>
COC_GLUE static void apply(void (*kernel)(A...), void** p, std::index_sequence<I...>) {
  kernel(*(A*)p[I]...);
}
template <class... A>
COC_GLUE static void call(void (*kernel)(A...), void** p) {
  apply(kernel, p, std::index_sequence_for<A...>{});
}

// One letter a parameter: p pointer, P pointer to const, f floating point, u unsigned, i signed
// integer, b bool, s struct.
template <class A, bool = std::is_enum<A>::value>
struct letter {
  typedef typename std::remove_pointer<A>::type target;
  static constexpr char value = std::is_pointer<A>::value
                                    ? (std::is_const<target>::value ? 'P' : 'p')
                                : std::is_same<A, bool>::value     ? 'b'
                                : std::is_floating_point<A>::value ? 'f'
                                : !std::is_integral<A>::value      ? 's'
                                : std::is_unsigned<A>::value       ? 'u'
                                                                   : 'i';
};
template <class A>
struct letter<A, true> : letter<typename std::underlying_type<A>::type> {};

template <class... A>
COC_GLUE static int signature(void (*)(A...), char* kinds, int* sizes) {
  static_assert(sizeof...(A) <= 256, "too many parameters");
  int n = 0;
  int each[] = {0, (kinds[n] = letter<A>::value, sizes[n] = (int)sizeof(A), ++n)...};
  (void)each;
  return n;
}
}  // namespace coc
