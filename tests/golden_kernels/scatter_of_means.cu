// graph scatter_of_means (x0: f32[6,24], x1: i32[6,9]) -> (%7)
//   %2 = mul(x0, 0.125)  f32[6,24]
//   %3 = reshape(%2) shape=(6, 1, 24)  f32[6,1,24]
//   %4 = broadcast(%3) shape=(6, 9, 24)  f32[6,9,24]
//   %5 = min(x1, 11)  i32[6,9]
//   %6 = max(%5, 0)  i32[6,9]
//   %7 = scatter_add(%4, %6) axis=0 extent=12  f32[12,24]
extern "C" __global__ void HG_BOUNDS(256) mul_min_scatter_add_0db5065f(const int* HG_RESTRICT x0, const float* HG_RESTRICT x1, float* HG_RESTRICT y0, const long long n0, const long long, const long long block_rows) {
  typedef int Index;
  __shared__ float table[7168];
  __shared__ hg::Hits<Index> hits;
  const int lane = threadIdx.x % 8;
  const int team = threadIdx.x / 8;
  const Index column = lane * 4;
  const Index i2_0 = column;
  const bool live = column < 24;
  const Index first = (Index)blockIdx.x * (Index)block_rows;
  const int count = (int)hg::minimum<Index>((Index)block_rows, 12 - first);
  const Index begin = 0;
  const Index end = (Index)n0 * 9;
  if (live) for (int r = team; r < count; r += 32) {
    HG_UNROLL
    for (int j = 0; j < 4; ++j) table[(j * 224 + r) * 8 + lane] = 0.0f;
  }
  int hit_count = 0, slot = 0;
  for (Index round = begin; round < end; round += hg::SCATTER_ROUND) {
    int hit_row[hg::SCATTER_STEPS];
    HG_UNROLL
    for (int step = 0; step < hg::SCATTER_STEPS; ++step) {
      const Index u = round + hg::scan_position(step);
      hit_row[step] = -1;
      if (u >= end) continue;
      const Index i0 = u / 9;
      const Index i1 = u % 9;
      const int v0 = x0[i0 * 9 + i1];
      const int v1 = hg::minimum(v0, 11);
      const int v2 = hg::maximum(v1, 0);
      const Index r = (Index)v2 - first;
      if (r >= 0 && r < count) hit_row[step] = (int)r;
    }
    hit_count = hg::collect(hits, hit_row, round, hit_count, slot);
    slot ^= 1;
    if (hit_count <= hg::SCATTER_LIST - hg::SCATTER_ROUND && end - round > hg::SCATTER_ROUND) continue;
    __syncthreads();
    if (live) for (int h = hg::next_hit<32>(hits, 0, hit_count, team); h < hit_count; h = hg::next_hit<32>(hits, h + 1, hit_count, team)) {
      const Index u = hits.update[h];
      const int r = hits.row[h];
      const Index i0 = u / 9;
      const hg::pack<float, 4> p0 = hg::load<4>(x1 + (i0 * 24 + i2_0));
      HG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float v0 = p0.v[j];
        const float v1 = v0 * 0.125f;
        table[(j * 224 + r) * 8 + lane] = table[(j * 224 + r) * 8 + lane] + v1;
      }
    }
    hit_count = 0;  // nobody writes to the list before all have passed the barrier that counting has
  }
  if (live) for (int r = team; r < count; r += 32) {
    const Index row = first + r;
    hg::pack<float, 4> q;
    HG_UNROLL
    for (int j = 0; j < 4; ++j) q.v[j] = table[(j * 224 + r) * 8 + lane];
    hg::store(y0 + (row * 24 + i2_0), q);
  }
}
