// SPDX-License-Identifier: Apache-2.0
// __restrict__ parameters that alias.
//
// When a launch passes one buffer for several pointer parameters, one of them __restrict__, every
// such parameter gets a mapping of its own of the same pages. So the address of an access tells by
// which parameter it was made. A byte written by one and read or written by another is a violation.
#pragma once
#include "access.hpp"

namespace coc {

const u32 MAX_ALIASES = 8;

struct AliasSet {
  Region* primary;
  std::vector<Region*> regions;  // of the further parameters
  u32 restrict_mask = 0;
  std::vector<const char*> names;  // of the parameters, by alias
};
static std::vector<AliasSet> g_alias_sets;

NOINLINE static bool alias_clash(const Region& r, Region& primary, uptr a, u32 size, u32 kind,
                                 uptr pc) {
  const AliasSet* set = nullptr;
  for (const AliasSet& s : g_alias_sets) {
    if (s.primary == &primary) set = &s;
  }
  const u32 me = r.alias;
  const size_t at = a - r.lo;
  for (size_t i = at; i < at + size; i++) {
    const u32 written = primary.alias_written[i], read = primary.alias_read[i];
    const u32 others = (kind & WRITE ? written | read : written) & ~me;
    if (UNLIKELY(others && (others | me) & set->restrict_mask)) {
      const char* mine = set->names[__builtin_ctz(me)];
      const char* theirs = set->names[__builtin_ctz(others)];
      FAULT(RESTRICT_VIOLATION, pc,
            "%s byte %zu of buffer '%s' by parameter '%s'%s, which parameter '%s'%s %s in the same "
            "launch",
            verb(kind), i, primary.name, mine, me & set->restrict_mask ? " (__restrict__)" : "",
            theirs, others & set->restrict_mask ? " (__restrict__)" : "",
            others & written ? "writes" : "reads");
      return true;
    }
    (kind & WRITE ? primary.alias_written : primary.alias_read)[i] |= me;
  }
  return false;
}

// A second mapping of r's pages; null if that cannot be had (memory of the host's).
static Region* map_alias(const Region& r) {
  if (!r.map) return nullptr;
  char* map = (char*)mmap(nullptr, r.map_bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  void* body =
      mremap((void*)(r.map + GUARD), 0, r.body_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, map + GUARD);
  if (body == MAP_FAILED) {
    munmap(map, r.map_bytes);
    return nullptr;
  }
  Region* alias = new Region();
  alias->map = (uptr)map;
  alias->map_bytes = r.map_bytes;
  alias->lo = alias->map + (r.lo - r.map);
  alias->hi = alias->lo + (r.hi - r.lo);
  memcpy(alias->name, r.name, sizeof r.name);
  return alias;
}

// Gives parameter p of the kernel, which points to 'at' in r, an address of its own.
static uptr alias_parameter(Region& r, u32 p, uptr at) {
  AliasSet* set = nullptr;
  for (AliasSet& s : g_alias_sets) {
    if (s.primary == &r) set = &s;
  }
  const u32 mask = g.kernel->is_restrict[p] ? 1 : 0;
  if (!set) {
    g_alias_sets.push_back({});
    set = &g_alias_sets.back();
    set->primary = &r;
    set->names.push_back(g.kernel->param_name[p]);
    set->restrict_mask = mask;
    r.alias = 1;
    r.alias_read = (u8*)calloc(r.hi - r.lo + 1, 1);
    r.alias_written = (u8*)calloc(r.hi - r.lo + 1, 1);
    return at;
  }
  if (set->names.size() == MAX_ALIASES) return at;
  Region* alias = map_alias(r);
  if (!alias) return at;
  alias->primary = &r;
  alias->alias = 1u << set->names.size();
  set->restrict_mask |= mask << set->names.size();
  set->names.push_back(g.kernel->param_name[p]);
  set->regions.push_back(alias);
  g.active.push_back(alias);
  return at - r.lo + alias->lo;
}

static void drop_aliases() {
  for (AliasSet& s : g_alias_sets) {
    for (Region* alias : s.regions) {
      munmap((void*)alias->map, alias->map_bytes);
      delete alias;
    }
    s.primary->alias = 0;
    free(s.primary->alias_read);
    free(s.primary->alias_written);
    s.primary->alias_read = s.primary->alias_written = nullptr;
  }
  g_alias_sets.clear();
}

}  // namespace coc
