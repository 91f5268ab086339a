#include "train/machine.h"

#include <sched.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <fstream>
#include <thread>

namespace ropewalk {

std::string host_name() {
  std::array<char, 256> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "unknown";
  return name.data();
}

std::string cpu_name() {
  std::string model = "unknown processor";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const auto colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      model = line.substr(colon + 2);
      break;
    }
  }
  return model + " (" + std::to_string(std::thread::hardware_concurrency()) + " cores)";
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(-1);
  return cores;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  std::array<char, 32> text = {};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string network_file_system(const std::string& path) {
  struct statfs info = {};
  if (statfs(path.c_str(), &info) != 0) return "";
  switch (static_cast<unsigned>(info.f_type)) {
    case 0x6969U:
      return "NFS";
    case 0x517BU:
    case 0xFF534D42U:
    case 0xFE534D42U:
      return "SMB";
    case 0x0BD00BD0U:
      return "Lustre";
    case 0x47504653U:
      return "GPFS";
    case 0x00C36400U:
      return "Ceph";
    case 0x5346414FU:
      return "AFS";
    case 0x65735546U:
      return "FUSE";
    default:
      return "";
  }
}

}  // namespace ropewalk
