#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ropewalk {

/// An HDF5 file cannot be read or written; the message names the file, the object in it and the reason.
class Hdf5Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Hdf5Type : uint8_t { f32, f64, i64 };

// ---------------------------------------------------------------------------------------------------------- reading

using Hdf5Attribute = std::variant<int64_t, double, std::string>;
using Hdf5Attributes = std::map<std::string, Hdf5Attribute>;

/// A dataset in memory, row-major. Floating-point data of at most 32 bits is float, wider is double; integers are
/// int64. monostate: data of another type, or that nobody asked for, which is not read.
struct Hdf5Dataset {
  std::vector<uint64_t> shape;  ///< empty for a scalar
  std::variant<std::monostate, std::vector<float>, std::vector<double>, std::vector<int64_t>, std::vector<std::string>>
      values;
};

/// A whole HDF5 file in memory. Objects go by their absolute path, e.g. "/train/loss"; link names may contain dots.
/// Scalar attributes of numbers and strings are kept, all others are left out.
struct Hdf5File {
  std::string path;
  std::map<std::string, Hdf5Attributes> attributes;  ///< by object; the keys are all groups ("/" too) and datasets
  std::map<std::string, Hdf5Dataset> datasets;
  std::map<std::string, std::string> damaged;  ///< datasets whose values cannot be read, each with the reason

  /// Also where its values cannot be read.
  bool has_dataset(const std::string& object) const {
    return datasets.count(object) != 0 || damaged.count(object) != 0;
  }
  /// Names (not paths) of the groups and datasets directly in `group`, sorted.
  std::vector<std::string> children(const std::string& group) const;
  /// @throws Hdf5Error if there is none, or its values cannot be read.
  const Hdf5Dataset& dataset(const std::string& object) const;
  /// The values of `object`, T one of float, double, int64_t, std::string. @throws Hdf5Error if absent or of another
  /// type.
  template <typename T>
  const std::vector<T>& values(const std::string& object) const;
  bool has_attribute(const std::string& object, const std::string& name) const;
  /// T one of int64_t, double (also from an integer), std::string. @throws Hdf5Error if absent or of another type.
  template <typename T>
  T attribute(const std::string& object, const std::string& name) const;

  [[noreturn]] void fail(const std::string& object, const std::string& reason) const;
};

enum class Hdf5Access : uint8_t {
  complete,  ///< a closed file
  live,      ///< also one that a living or killed process has open in SWMR mode: read as far as it was flushed
};

/// Reads all of `path`. The file may be anything: it is opened by a child process, so that not even a crash of the HDF5
/// library gets here, every size is checked against the size of the file before memory is taken, external files and
/// links that leave the file are refused or skipped. Takes no lock, so that it hinders no writer.
/// A damaged chunk costs the dataset that it belongs to, damage elsewhere the file.
/// `wanted`, where given, says by its path which datasets' values to read; of the others only the shape is taken.
/// @throws Hdf5Error also for a file that this very process is writing.
Hdf5File read_hdf5(const std::string& path, Hdf5Access access,
                   const std::function<bool(const std::string& object)>& wanted = {});

/// The first rows of a dataset of floating-point numbers of at most 32 bits.
struct Hdf5RowsRequest {
  std::string object;
  uint64_t rows = 0;      ///< at most as many as the dataset has
  uint64_t row_size = 0;  ///< values in a row
};

/// Some rows of what was asked for.
struct Hdf5Rows {
  std::size_t request = 0;  ///< its index
  uint64_t first = 0, count = 0;
  std::vector<float> values;  ///< row-major; empty where the rows cannot be read
  std::string damage;         ///< why they cannot; "" if they can
};

/// Reads datasets that need not fit into memory: each from its first to its last row, about a megabyte at a time, which
/// goes to `sink`. A damaged chunk costs the rows that are read with it. As careful as read_hdf5().
/// @throws Hdf5Error also where a dataset is missing, or its shape or type is not as asked for.
void read_hdf5_rows(const std::string& path, Hdf5Access access, std::span<const Hdf5RowsRequest> requests,
                    const std::function<void(const Hdf5Rows&)>& sink);

// ---------------------------------------------------------------------------------------------------------- writing

/// Creates an HDF5 file and fills it: groups, attributes, datasets; optionally the SWMR mode, in which readers may look
/// on and a kill loses nothing that was flushed, but nothing can be created any more.
///
/// After the first failure the file is never touched again, not even closed: whatever HDF5 would still write could only
/// damage what is safe. Every later call throws.
class Hdf5Writer {
 public:
  /// Identifies a dataset of this writer.
  using Dataset = std::size_t;

  struct RowsSpec {
    std::string object;  ///< path, e.g. "/train/loss"; its group exists
    Hdf5Type type = Hdf5Type::f32;
    std::vector<uint64_t> row_shape;  ///< shape of one row; empty: a scalar a row
    uint64_t chunk_rows = 1;
    bool compress = false;  ///< shuffle and gzip; never in a file that enters SWMR mode, where it leaks space
  };

  /// Creates `path`. @throws Hdf5Error if it exists or cannot be created.
  explicit Hdf5Writer(const std::string& path);
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  const std::string& path() const;
  /// Names the file in messages from now on, after it was renamed.
  void renamed(const std::string& path);
  bool failed() const;

  void create_group(const std::string& object);
  /// A dataset of zero rows that grows without limit; unwritten values read as NaN or -1.
  Dataset create_rows(const RowsSpec& spec);
  /// A dataset of fixed shape (empty: a scalar) with its values, row-major. Numbers or variable-length UTF-8 strings.
  Dataset create(const std::string& object, const std::vector<uint64_t>& shape, const std::vector<float>& values);
  Dataset create(const std::string& object, const std::vector<uint64_t>& shape, const std::vector<double>& values);
  Dataset create(const std::string& object, const std::vector<uint64_t>& shape, const std::vector<int64_t>& values);
  Dataset create(const std::string& object, const std::vector<uint64_t>& shape, const std::vector<std::string>& values);
  /// Sets an attribute of a group or dataset; strings are stored as variable-length UTF-8.
  void set_attribute(const std::string& object, const std::string& name, const Hdf5Attribute& value);
  /// Makes a one-dimensional dataset the scale (coordinate) of a dimension called `name`.
  void make_scale(Dataset dataset, const std::string& name);
  void attach_scale(Dataset dataset, unsigned dimension, Dataset scale);

  void start_swmr();

  /// Appends `rows` rows; `data` has the dataset's own type.
  void append(Dataset dataset, uint64_t rows, const void* data);
  /// Overwrites all values of a dataset of numbers in place.
  void overwrite(Dataset dataset, const void* data);
  void flush(Dataset dataset);
  void flush_file();
  /// Forces what was flushed to the disk itself.
  void sync();
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// `text` with every byte that is not valid UTF-8 replaced by U+FFFD and without NUL: what an HDF5 string can hold.
std::string as_utf8(std::string_view text);

}  // namespace ropewalk
