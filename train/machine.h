#pragma once

#include <string>
#include <vector>

namespace ropewalk {

/// Name of this host, or "unknown".
std::string host_name();

/// Model name of the processor and the number of logical cores, e.g. "AMD EPYC 7763 (2 cores)".
std::string cpu_name();

/// The cores that this process may use, by their numbers; where the system does not tell, one numbered -1.
std::vector<int> allowed_cores();

/// The time now in UTC as ISO 8601, e.g. "2026-11-29T12:48:00Z".
std::string utc_now();

/// The name of the network file system that holds `path` ("NFS", "SMB", ...); empty for a local or unknown one.
std::string network_file_system(const std::string& path);

}  // namespace ropewalk
