#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ropewalk {

/// Levenshtein's distance: the fewest insertions, deletions and replacements of a byte that make `a` of `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The dotted name nearest to `name`, compared as a whole and by the part after the last dot, letter case ignored;
/// "" where nothing is near enough to be meant. Short names must match more closely than long ones.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace ropewalk
