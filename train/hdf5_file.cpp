#include "train/hdf5_file.h"

#include <fcntl.h>
#include <hdf5.h>
#include <hdf5_hl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "train/isolated_process.h"

namespace ropewalk {
namespace {

/// Every use of the library stands inside one of these: one thread at a time, and no error stack on stderr.
class Session {
 public:
  Session() : lock_(mutex()) {
    static std::once_flag once;
    // The library's own exit handler would write to files whose disk is full and crash.
    std::call_once(once, [] { H5dont_atexit(); });
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    H5Eclear2(H5E_DEFAULT);
  }

 private:
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex m;
    return m;
  }
  std::lock_guard<std::recursive_mutex> lock_;
};

/// The innermost reason on HDF5's error stack, as a clause to append; a system error by its text alone.
std::string library_reason() {
  std::string reason;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned n, const H5E_error2_t* error, void* out) -> herr_t {
        if (n == 0 && error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;
        return 0;
      },
      &reason);
  constexpr std::string_view kKey = "error message = '";
  if (const auto key = reason.find(kKey); key != std::string::npos) {
    const auto begin = key + kKey.size();
    reason = reason.substr(begin, reason.find('\'', begin) - begin);
  }
  return reason.empty() ? "" : " (" + reason + ")";
}

/// Owns an HDF5 identifier.
class Handle {
 public:
  explicit Handle(hid_t id = -1) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle() { reset(); }
  void reset() {
    if (id_ < 0) return;
    const hid_t id = std::exchange(id_, -1);
    switch (H5Iget_type(id)) {
      case H5I_FILE:
        H5Fclose(id);
        break;
      case H5I_GROUP:
        H5Gclose(id);
        break;
      case H5I_DATASET:
        H5Dclose(id);
        break;
      case H5I_DATATYPE:
        H5Tclose(id);
        break;
      case H5I_DATASPACE:
        H5Sclose(id);
        break;
      case H5I_ATTR:
        H5Aclose(id);
        break;
      case H5I_GENPROP_LST:
        H5Pclose(id);
        break;
      default:
        break;
    }
  }
  void release() { id_ = -1; }
  operator hid_t() const { return id_; }  // NOLINT(google-explicit-constructor): stands for the identifier

 private:
  hid_t id_;
};

Handle string_type() {
  Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

hid_t native(Hdf5Type type) {
  switch (type) {
    case Hdf5Type::f32:
      return H5T_NATIVE_FLOAT;
    case Hdf5Type::f64:
      return H5T_NATIVE_DOUBLE;
    case Hdf5Type::i64:
      return H5T_NATIVE_INT64;
  }
  return -1;
}

using FileIdentity = std::pair<uint64_t, uint64_t>;

/// Files that writers of this process have open (or have given up): the library would hand its own in-memory state of
/// them to a reader.
std::set<FileIdentity>& files_being_written() {
  static std::set<FileIdentity> files;
  return files;
}

std::optional<FileIdentity> identity(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileIdentity{info.st_dev, info.st_ino};
}

// ---------------------------------------------------------------------------------------------------------- reading

enum class Record : uint8_t { object, attribute, dataset, damaged, rows, damaged_rows, error, end };
enum class Content : uint8_t { none, f32, f64, i64, text };

constexpr uint64_t kSlack =
    uint64_t{16} << 20;                   // a live file's extents may be ahead of its data by what is not flushed
constexpr uint64_t kDeflateRatio = 1040;  // deflate cannot do better
constexpr int kMaxDepth = 16;
constexpr uint64_t kSlabBytes = uint64_t{1} << 20;

uint64_t multiply(uint64_t a, uint64_t b) {
  return b != 0 && a > std::numeric_limits<uint64_t>::max() / b ? std::numeric_limits<uint64_t>::max() : a * b;
}

/// The library refuses to read the values of a dataset.
struct UnreadableValues {
  std::string reason;
};

/// Walks a file, in the child, and writes what it finds as records.
class FileWalk {
 public:
  FileWalk(std::string path, uint64_t file_bytes, ByteWriter& out)
      : path_(std::move(path)), file_bytes_(file_bytes), objects_left_(file_bytes / 32 + 16), out_(out) {
    text_left_ = multiply(file_bytes, 16) + kSlack;
  }

  /// All groups and datasets.
  void all(Hdf5Access access, const std::function<bool(const std::string&)>& wanted) {
    wanted_ = &wanted;
    walk(access, [&](hid_t root) { group(root, "/", 0); });
  }

  /// Rows of some datasets, a slab at a time.
  void rows(Hdf5Access access, std::span<const Hdf5RowsRequest> requests) {
    walk(access, [&](hid_t root) {
      for (std::size_t i = 0; i < requests.size(); ++i) slabs(root, i, requests[i]);
    });
  }

 private:
  template <typename F>
  void walk(Hdf5Access access, F&& visit) {
    try {
      const Handle fapl(H5Pcreate(H5P_FILE_ACCESS));
      H5Pset_file_locking(fapl, 0, 1);
      // A live file may be caught in the middle of a write. The pause between attempts doubles from a nanosecond, and
      // the default of 100 attempts would never end on a damaged file.
      H5Pset_metadata_read_attempts(fapl, 24);
      Handle file;
      if (access == Hdf5Access::live) file = Handle(H5Fopen(path_.c_str(), H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, fapl));
      if (file < 0) file = Handle(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, fapl));
      if (file < 0) fail("/", "cannot be opened" + library_reason());
      const Handle root(H5Gopen2(file, "/", H5P_DEFAULT));
      if (root < 0) fail("/", "has no root group" + library_reason());
      visit(hid_t{root});
      out_.value(Record::end);
    } catch (const Hdf5Error& error) {
      out_.value(Record::error);
      out_.text(error.what());
    } catch (const std::exception&) {
      out_.value(Record::error);
      out_.text("'" + path_ + "': needs more memory than a file of its size should");
    }
  }

  [[noreturn]] void fail(const std::string& object, const std::string& reason) const {
    throw Hdf5Error("'" + path_ + "': '" + object + "' " + reason);
  }

  void count_object(const std::string& object) {
    if (objects_left_-- == 0)
      fail(object, "is one object too many for the size of the file; a group that holds itself?");
  }

  void group(hid_t id, const std::string& object, int depth) {
    if (depth > kMaxDepth) fail(object, "lies deeper than " + std::to_string(kMaxDepth) + " groups");
    count_object(object);
    out_.value(Record::object);
    out_.text(object);
    attributes(id, object);
    H5G_info_t info = {};
    if (H5Gget_info(id, &info) < 0) fail(object, "cannot be listed" + library_reason());
    for (hsize_t i = 0; i < info.nlinks; ++i) child(id, object, i, depth);
  }

  void child(hid_t parent, const std::string& parent_object, hsize_t index, int depth) {
    const ssize_t length = H5Lget_name_by_idx(parent, ".", H5_INDEX_NAME, H5_ITER_INC, index, nullptr, 0, H5P_DEFAULT);
    if (length < 0) fail(parent_object, "has an unreadable link" + library_reason());
    std::string name(static_cast<std::size_t>(length) + 1, '\0');
    H5Lget_name_by_idx(parent, ".", H5_INDEX_NAME, H5_ITER_INC, index, name.data(), name.size(), H5P_DEFAULT);
    name.pop_back();
    const std::string object = (parent_object == "/" ? "" : parent_object) + "/" + name;
    H5L_info_t link = {};
    if (H5Lget_info(parent, name.c_str(), &link, H5P_DEFAULT) < 0) fail(object, "is an unreadable link");
    if (link.type != H5L_TYPE_HARD) return;  // soft and external links may lead out of the file
    const Handle id(H5Oopen(parent, name.c_str(), H5P_DEFAULT));
    if (id < 0) fail(object, "cannot be opened" + library_reason());
    switch (H5Iget_type(id)) {
      case H5I_GROUP:
        group(id, object, depth + 1);
        break;
      case H5I_DATASET:
        dataset(id, object);
        break;
      default:
        count_object(object);
        break;
    }
  }

  void attributes(hid_t id, const std::string& object) {
    std::vector<std::string> names;
    const herr_t listed = H5Aiterate2(
        id, H5_INDEX_NAME, H5_ITER_INC, nullptr,
        [](hid_t, const char* name, const H5A_info_t*, void* out) -> herr_t {
          static_cast<std::vector<std::string>*>(out)->emplace_back(name);
          return 0;
        },
        &names);
    if (listed < 0) fail(object, "has unreadable attributes" + library_reason());
    for (const std::string& name : names) {
      const std::optional<Hdf5Attribute> value = attribute(id, object, name);
      if (!value) continue;
      out_.value(Record::attribute);
      out_.text(object);
      out_.text(name);
      out_.value(static_cast<uint8_t>(value->index()));
      if (const auto* integer = std::get_if<int64_t>(&*value)) out_.value(*integer);
      if (const auto* real = std::get_if<double>(&*value)) out_.value(*real);
      if (const auto* text = std::get_if<std::string>(&*value)) out_.text(*text);
    }
  }

  std::optional<Hdf5Attribute> attribute(hid_t id, const std::string& object, const std::string& name) {
    const Handle attribute(H5Aopen(id, name.c_str(), H5P_DEFAULT));
    const auto unreadable = [&] { fail(object, "has an unreadable attribute '" + name + "'" + library_reason()); };
    if (attribute < 0) unreadable();
    const Handle space(H5Aget_space(attribute)), type(H5Aget_type(attribute));
    if (space < 0 || type < 0) unreadable();
    if (H5Sget_simple_extent_npoints(space) != 1) return std::nullopt;
    switch (H5Tget_class(type)) {
      case H5T_INTEGER: {
        int64_t value = 0;
        if (H5Aread(attribute, H5T_NATIVE_INT64, &value) < 0) unreadable();
        return value;
      }
      case H5T_FLOAT: {
        double value = 0;
        if (H5Aread(attribute, H5T_NATIVE_DOUBLE, &value) < 0) unreadable();
        return value;
      }
      case H5T_STRING: {
        if (H5Tis_variable_str(type) > 0) {
          char* text = nullptr;
          if (H5Aread(attribute, type, static_cast<void*>(&text)) < 0) unreadable();
          std::string value = text == nullptr ? "" : text;
          H5free_memory(text);
          return value;
        }
        std::string value(checked_size(object, H5Tget_size(type)), '\0');
        if (H5Aread(attribute, type, value.data()) < 0) unreadable();
        return trimmed(value, H5Tget_strpad(type));
      }
      default:
        return std::nullopt;
    }
  }

  static std::string trimmed(const std::string& fixed, H5T_str_t padding) {
    std::string value = fixed.substr(0, fixed.find('\0'));
    if (padding == H5T_STR_SPACEPAD) value.erase(value.find_last_not_of(' ') + 1);
    return value;
  }

  uint64_t checked_size(const std::string& object, uint64_t bytes) const {
    if (bytes > file_bytes_) fail(object, "claims more bytes than the file has");
    return bytes;
  }

  void dataset(hid_t id, const std::string& object) {
    count_object(object);
    out_.value(Record::object);
    out_.text(object);
    attributes(id, object);
    const Described about = describe(id, object);
    const std::vector<hsize_t>& shape = about.shape;
    const uint64_t count = about.count;
    const bool wanted = !*wanted_ || (*wanted_)(object);
    const Content content = wanted ? about.content : Content::none;
    // The values are read before anything is written: a failure between the two would be taken for values.
    const auto announce = [&] {
      out_.value(Record::dataset);
      out_.text(object);
      out_.value(uint64_t{shape.size()});
      for (const hsize_t extent : shape) out_.value(uint64_t{extent});
      out_.value(content);
      out_.value(count);
    };
    const auto numbers = [&]<typename T>(hid_t memory_type) {
      const std::vector<T> values = read_numbers<T>(id, memory_type, count);
      announce();
      out_.bytes(values.data(), count * sizeof(T));
    };
    try {
      switch (content) {
        case Content::none:
          announce();
          break;
        case Content::f32:
          numbers.template operator()<float>(H5T_NATIVE_FLOAT);
          break;
        case Content::f64:
          numbers.template operator()<double>(H5T_NATIVE_DOUBLE);
          break;
        case Content::i64:
          numbers.template operator()<int64_t>(H5T_NATIVE_INT64);
          break;
        case Content::text: {
          const std::vector<std::string> texts = read_strings(id, about.type, about.space, count, object);
          announce();
          for (const std::string& text : texts) out_.text(text);
          break;
        }
      }
    } catch (const UnreadableValues& failure) {
      out_.value(Record::damaged);
      out_.text(object);
      out_.text("cannot be read" + failure.reason);
    }
  }

  struct Described {
    Handle space, type, dcpl;
    std::vector<hsize_t> shape;
    uint64_t count = 1;
    Content content = Content::none;
  };

  /// Shape and type of a dataset whose claims are checked against the file.
  Described describe(hid_t id, const std::string& object) {
    Described out{Handle(H5Dget_space(id)), Handle(H5Dget_type(id)), Handle(H5Dget_create_plist(id)), {}};
    if (out.space < 0 || out.type < 0 || out.dcpl < 0) fail(object, "cannot be read" + library_reason());
    const H5D_layout_t layout = H5Pget_layout(out.dcpl);
    if (layout == H5D_VIRTUAL || H5Pget_external_count(out.dcpl) > 0) fail(object, "keeps its data in other files");
    if (H5Sget_simple_extent_type(out.space) == H5S_NULL) {
      out.shape = {0};
    } else {
      const int rank = H5Sget_simple_extent_ndims(out.space);
      if (rank < 0 || rank > H5S_MAX_RANK) fail(object, "has an impossible rank");
      out.shape.resize(static_cast<std::size_t>(rank));
      H5Sget_simple_extent_dims(out.space, out.shape.data(), nullptr);
    }
    for (const hsize_t extent : out.shape) out.count = multiply(out.count, extent);
    const H5T_class_t type_class = H5Tget_class(out.type);
    const uint64_t element = std::max<uint64_t>(H5Tget_size(out.type), 1);
    if (type_class == H5T_FLOAT) out.content = element <= sizeof(float) ? Content::f32 : Content::f64;
    if (type_class == H5T_INTEGER && element <= sizeof(int64_t)) out.content = Content::i64;
    if (type_class == H5T_STRING) out.content = Content::text;
    if (out.content != Content::none) check_claims(id, out.dcpl, layout, out.shape, element, out.count, object);
    return out;
  }

  void slabs(hid_t root, std::size_t index, const Hdf5RowsRequest& request) {
    const std::string& object = request.object;
    const Handle id(H5Dopen2(root, object.c_str(), H5P_DEFAULT));
    if (id < 0) fail(object, "is missing, or is no dataset");
    const Described about = describe(id, object);
    if (about.content != Content::f32) fail(object, "does not hold 32-bit floating-point numbers");
    std::vector<hsize_t> start(about.shape.size(), 0), extent = about.shape;
    uint64_t row_size = 1;
    for (std::size_t i = 1; i < extent.size(); ++i) row_size = multiply(row_size, extent[i]);
    if (extent.empty() || extent[0] < request.rows || row_size != request.row_size) {
      fail(object, "has another shape than before");
    }
    // Whole chunks, so that none is decompressed twice.
    std::vector<hsize_t> chunk(extent.size(), 1);
    if (H5Pget_layout(about.dcpl) == H5D_CHUNKED) {
      H5Pget_chunk(about.dcpl, static_cast<int>(chunk.size()), chunk.data());
    }
    const uint64_t row_bytes = std::max<uint64_t>(row_size * sizeof(float), 1);
    const uint64_t chunk_rows = std::max<uint64_t>(chunk[0], 1);
    const uint64_t step = std::max<uint64_t>(kSlabBytes / row_bytes / chunk_rows, 1) * chunk_rows;
    std::vector<float> values;
    for (uint64_t first = 0; first < request.rows; first += step) {
      start[0] = first;
      extent[0] = std::min(step, request.rows - first);
      values.resize(extent[0] * row_size);
      const Handle in_memory(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr));
      const bool read =
          H5Sselect_hyperslab(about.space, H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr) >= 0 &&
          H5Dread(id, H5T_NATIVE_FLOAT, in_memory, about.space, H5P_DEFAULT, values.data()) >= 0;
      out_.value(read ? Record::rows : Record::damaged_rows);
      out_.value(uint64_t{index});
      out_.value(first);
      out_.value(uint64_t{extent[0]});
      if (read) {
        out_.bytes(values.data(), values.size() * sizeof(float));
      } else {
        out_.text("cannot be read" + library_reason());
      }
    }
  }

  void check_claims(hid_t id, hid_t dcpl, H5D_layout_t layout, const std::vector<hsize_t>& shape, uint64_t element,
                    uint64_t count, const std::string& object) {
    struct stat now = {};  // a live file grows
    if (stat(path_.c_str(), &now) == 0) file_bytes_ = std::max(file_bytes_, static_cast<uint64_t>(now.st_size));
    const uint64_t stored = H5Dget_storage_size(id);
    const uint64_t ratio = H5Pget_nfilters(dcpl) > 0 ? kDeflateRatio : 1;
    const uint64_t claimed = multiply(count, element), backed = multiply(std::min(stored, file_bytes_), ratio);
    const uint64_t unbacked = claimed - std::min(claimed, backed);
    if (unbacked > unbacked_left_) fail(object, "claims more values than the file can hold");
    unbacked_left_ -= unbacked;
    // Of a live or killed file, chunks may be allocated behind its end that were not written.
    const uint64_t most_stored = file_bytes_ + kSlack;
    if (stored > most_stored - std::min(most_stored, stored_so_far_)) {
      fail(object, "claims more bytes than the file has");
    }
    stored_so_far_ += stored;
    if (layout != H5D_CHUNKED) return;
    std::vector<hsize_t> chunk(shape.size());
    if (H5Pget_chunk(dcpl, static_cast<int>(chunk.size()), chunk.data()) < 0) fail(object, "has unreadable chunks");
    uint64_t chunk_bytes = element;
    for (const hsize_t extent : chunk) chunk_bytes = multiply(chunk_bytes, extent);
    if (chunk_bytes > multiply(file_bytes_, ratio) + kSlack) fail(object, "has chunks larger than the file can hold");
  }

  template <typename T>
  static std::vector<T> read_numbers(hid_t id, hid_t memory_type, uint64_t count) {
    std::vector<T> values(count);
    if (count > 0 && H5Dread(id, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0) {
      throw UnreadableValues{library_reason()};
    }
    return values;
  }

  std::vector<std::string> read_strings(hid_t id, hid_t type, hid_t space, uint64_t count, const std::string& object) {
    std::vector<std::string> texts;
    if (count == 0) return texts;
    if (H5Tis_variable_str(type) > 0) {
      std::vector<char*> values(count, nullptr);
      if (H5Dread(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, static_cast<void*>(values.data())) < 0) {
        throw UnreadableValues{library_reason()};
      }
      for (const char* value : values) {
        const std::string_view text = value == nullptr ? "" : value;
        if (text.size() > text_left_) fail(object, "claims more text than the file can hold");
        text_left_ -= text.size();
        texts.emplace_back(text);
      }
      H5Dvlen_reclaim(type, space, H5P_DEFAULT, static_cast<void*>(values.data()));
      return texts;
    }
    const std::size_t size = H5Tget_size(type);
    std::vector<char> values(multiply(count, size));
    if (H5Dread(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0) {
      throw UnreadableValues{library_reason()};
    }
    for (uint64_t i = 0; i < count; ++i) {
      texts.push_back(trimmed(std::string(values.data() + i * size, size), H5Tget_strpad(type)));
    }
    return texts;
  }

  std::string path_;
  uint64_t file_bytes_;
  uint64_t objects_left_;
  uint64_t stored_so_far_ = 0;
  uint64_t unbacked_left_ = kSlack;  // bytes that datasets may have beyond what is stored: rows not yet written
  uint64_t text_left_ = 0;           // many strings may be one in the file
  const std::function<bool(const std::string&)>* wanted_ = nullptr;
  ByteWriter& out_;
};

/// Reads the records of a FileWalk.
void read_records(ByteReader& in, Hdf5File& file) {
  while (true) {
    switch (in.value<Record>()) {
      case Record::object:
        file.attributes[in.text()];
        break;
      case Record::attribute: {
        const std::string object = in.text(), name = in.text();
        Hdf5Attribute& value = file.attributes[object][name];
        switch (in.value<uint8_t>()) {
          case 0:
            value = in.value<int64_t>();
            break;
          case 1:
            value = in.value<double>();
            break;
          default:
            value = in.text();
            break;
        }
        break;
      }
      case Record::dataset: {
        Hdf5Dataset& dataset = file.datasets[in.text()];
        dataset.shape = in.vector<uint64_t>(in.value<uint64_t>());
        const auto content = in.value<Content>();
        const auto count = in.value<uint64_t>();
        switch (content) {
          case Content::none:
            break;
          case Content::f32:
            dataset.values = in.vector<float>(count);
            break;
          case Content::f64:
            dataset.values = in.vector<double>(count);
            break;
          case Content::i64:
            dataset.values = in.vector<int64_t>(count);
            break;
          case Content::text: {
            std::vector<std::string> texts;
            for (uint64_t i = 0; i < count; ++i) texts.push_back(in.text());
            dataset.values = std::move(texts);
            break;
          }
        }
        break;
      }
      case Record::damaged: {
        const std::string object = in.text();
        file.damaged[object] = in.text();
        break;
      }
      case Record::error:
        throw Hdf5Error(in.text());
      case Record::end:
        return;
      default:
        throw ChildError("it sent nonsense");
    }
  }
}

/// Reads the records of FileWalk::rows().
void read_row_records(ByteReader& in, std::span<const Hdf5RowsRequest> requests,
                      const std::function<void(const Hdf5Rows&)>& sink) {
  while (true) {
    const auto record = in.value<Record>();
    if (record == Record::end) return;
    if (record == Record::error) throw Hdf5Error(in.text());
    if (record != Record::rows && record != Record::damaged_rows) throw ChildError("it sent nonsense");
    Hdf5Rows rows;
    rows.request = in.value<uint64_t>();
    rows.first = in.value<uint64_t>();
    rows.count = in.value<uint64_t>();
    const uint64_t most = rows.request < requests.size() ? requests[rows.request].rows : 0;
    if (rows.first > most || rows.count > most - rows.first) throw ChildError("it sent nonsense");
    if (record == Record::rows) {
      rows.values = in.vector<float>(multiply(rows.count, requests[rows.request].row_size));
    } else {
      rows.damage = in.text();
    }
    sink(rows);
  }
}

/// Says at once what is plainly no HDF5 file, and returns the size of one.
uint64_t check_signature(const std::string& path) {
  const auto fail = [&](const std::string& reason) { throw Hdf5Error("'" + path + "': " + reason); };
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) fail(std::strerror(errno));
  if (S_ISDIR(info.st_mode)) fail("is a directory, not an HDF5 file");
  if (!S_ISREG(info.st_mode)) fail("is not a regular file");
  if (info.st_size == 0) fail("is empty");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(std::strerror(errno));
  constexpr std::array<unsigned char, 8> kSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  bool found = false;
  for (off_t offset = 0; !found && offset < info.st_size; offset = offset == 0 ? 512 : offset * 2) {
    std::array<unsigned char, 8> start = {};
    found = pread(fd, start.data(), start.size(), offset) == ssize_t{start.size()} && start == kSignature;
  }
  ::close(fd);
  if (!found) fail("is not an HDF5 file");
  return static_cast<uint64_t>(info.st_size);
}

/// Lets a child walk over the file at `path`, within limits that follow from its size.
void walk_in_child(const std::string& path, const std::function<void(FileWalk&)>& walk,
                   const std::function<void(ByteReader&)>& consume) {
  const uint64_t file_bytes = check_signature(path);
  const Session session;  // held while forking, so that no other thread is inside the library
  if (const auto file = identity(path); file && files_being_written().count(*file) != 0) {
    throw Hdf5Error("'" + path + "': is being written by this process");
  }
  ChildLimits limits;
  limits.memory_bytes += multiply(file_bytes, 128);
  limits.cpu_seconds += static_cast<unsigned>(std::min<uint64_t>(file_bytes >> 20, 100000));
  try {
    in_child_process(
        limits,
        [&](ByteWriter& out) {
          FileWalk child(path, file_bytes, out);
          walk(child);
        },
        consume);
  } catch (const ChildError& error) {
    throw Hdf5Error("'" + path + "': is damaged; reading it failed: " + error.what());
  }
}

}  // namespace

Hdf5File read_hdf5(const std::string& path, Hdf5Access access,
                   const std::function<bool(const std::string& object)>& wanted) {
  Hdf5File file;
  file.path = path;
  walk_in_child(
      path, [&](FileWalk& walk) { walk.all(access, wanted); }, [&](ByteReader& in) { read_records(in, file); });
  return file;
}

void read_hdf5_rows(const std::string& path, Hdf5Access access, std::span<const Hdf5RowsRequest> requests,
                    const std::function<void(const Hdf5Rows&)>& sink) {
  walk_in_child(
      path, [&](FileWalk& walk) { walk.rows(access, requests); },
      [&](ByteReader& in) { read_row_records(in, requests, sink); });
}

std::vector<std::string> Hdf5File::children(const std::string& group) const {
  const std::string prefix = group == "/" ? group : group + "/";
  std::vector<std::string> names;
  for (auto at = attributes.lower_bound(prefix); at != attributes.end() && at->first.rfind(prefix, 0) == 0; ++at) {
    const std::string name = at->first.substr(prefix.size());
    if (!name.empty() && name.find('/') == std::string::npos) names.push_back(name);
  }
  return names;
}

void Hdf5File::fail(const std::string& object, const std::string& reason) const {
  throw Hdf5Error("'" + path + "': '" + object + "' " + reason);
}

const Hdf5Dataset& Hdf5File::dataset(const std::string& object) const {
  if (const auto bad = damaged.find(object); bad != damaged.end()) fail(object, bad->second);
  const auto at = datasets.find(object);
  if (at == datasets.end()) fail(object, "is missing, or is no dataset");
  return at->second;
}

template <typename T>
const std::vector<T>& Hdf5File::values(const std::string& object) const {
  const auto* values = std::get_if<std::vector<T>>(&dataset(object).values);
  if (values == nullptr) {
    fail(object, std::is_same_v<T, std::string> ? "does not hold strings"
                 : std::is_same_v<T, int64_t>   ? "does not hold integers"
                 : std::is_same_v<T, float>     ? "does not hold 32-bit floating-point numbers"
                                                : "does not hold 64-bit floating-point numbers");
  }
  return *values;
}
template const std::vector<float>& Hdf5File::values<float>(const std::string&) const;
template const std::vector<double>& Hdf5File::values<double>(const std::string&) const;
template const std::vector<int64_t>& Hdf5File::values<int64_t>(const std::string&) const;
template const std::vector<std::string>& Hdf5File::values<std::string>(const std::string&) const;

bool Hdf5File::has_attribute(const std::string& object, const std::string& name) const {
  const auto at = attributes.find(object);
  return at != attributes.end() && at->second.count(name) != 0;
}

template <typename T>
T Hdf5File::attribute(const std::string& object, const std::string& name) const {
  if (!has_attribute(object, name)) fail(object, "has no attribute '" + name + "'");
  const Hdf5Attribute& value = attributes.at(object).at(name);
  if (const T* exact = std::get_if<T>(&value)) return *exact;
  if constexpr (std::is_same_v<T, double>) {
    if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  }
  fail(object, "has an attribute '" + name + "' of another type than " +
                   (std::is_same_v<T, std::string> ? "string"
                    : std::is_same_v<T, double>    ? "number"
                                                   : "integer"));
}
template int64_t Hdf5File::attribute<int64_t>(const std::string&, const std::string&) const;
template double Hdf5File::attribute<double>(const std::string&, const std::string&) const;
template std::string Hdf5File::attribute<std::string>(const std::string&, const std::string&) const;

// ---------------------------------------------------------------------------------------------------------- writing

struct Hdf5Writer::State {
  struct Entry {
    Handle id;
    Hdf5Type type = Hdf5Type::i64;
    std::vector<hsize_t> shape;
    std::string object;
  };

  std::string path;
  std::optional<FileIdentity> file_identity;
  Handle file;
  std::vector<Entry> entries;
  bool failed = false;

  void require_usable() const {
    if (failed) throw Hdf5Error("'" + path + "': is not touched any more after an earlier failure");
    if (file < 0) throw Hdf5Error("'" + path + "': is closed");
  }

  template <typename Status>
  void check(Status status, std::string_view what, const std::string& object) {
    if (status >= 0) return;
    failed = true;
    throw Hdf5Error("'" + path + "': cannot " + std::string(what) + " '" + object + "'" + library_reason());
  }

  Dataset create(const std::string& object, hid_t type, const std::vector<uint64_t>& shape, const void* values,
                 Hdf5Type entry_type) {
    require_usable();
    const std::vector<hsize_t> extents(shape.begin(), shape.end());
    const Handle space(extents.empty() ? H5Screate(H5S_SCALAR)
                                       : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
    const Handle dcpl(H5Pcreate(H5P_DATASET_CREATE));
    uint64_t count = 1;
    for (const hsize_t extent : extents) count *= extent;
    // Contiguous data under SWMR is unreadable with some later versions of the library.
    if (!extents.empty() && count > 0) H5Pset_chunk(dcpl, static_cast<int>(extents.size()), extents.data());
    H5Pset_attr_creation_order(dcpl, H5P_CRT_ORDER_TRACKED);
    Entry entry;
    entry.id = Handle(H5Dcreate2(file, object.c_str(), type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT));
    check(hid_t{entry.id}, "create", object);
    entry.type = entry_type;
    entry.shape = extents;
    entry.object = object;
    if (count > 0) check(H5Dwrite(entry.id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "write", object);
    entries.push_back(std::move(entry));
    return entries.size() - 1;
  }

  template <typename T>
  Dataset create_numbers(const std::string& object, const std::vector<uint64_t>& shape, const std::vector<T>& values,
                         Hdf5Type type) {
    check_count(object, shape, values.size());
    return create(object, native(type), shape, values.data(), type);
  }

  void check_count(const std::string& object, const std::vector<uint64_t>& shape, std::size_t count) const {
    uint64_t expected = 1;
    for (const uint64_t extent : shape) expected *= extent;
    if (expected != count) {
      throw std::invalid_argument("'" + object + "' has " + std::to_string(count) + " values, its shape asks for " +
                                  std::to_string(expected));
    }
  }
};

Hdf5Writer::Hdf5Writer(const std::string& path) : state_(std::make_unique<State>()) {
  const Session session;
  State& s = *state_;
  s.path = path;
  const Handle fapl(H5Pcreate(H5P_FILE_ACCESS)), fcpl(H5Pcreate(H5P_FILE_CREATE));
  // Not LATEST: the format must not depend on the version of the library that writes it.
  s.check(H5Pset_libver_bounds(fapl, H5F_LIBVER_V110, H5F_LIBVER_V110), "set the format of", "/");
  H5Pset_file_locking(fapl, 1, 1);  // file systems without locks do not stop a run
  H5Pset_link_creation_order(fcpl, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  H5Pset_attr_creation_order(fcpl, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  s.file = Handle(H5Fcreate(path.c_str(), H5F_ACC_EXCL, fcpl, fapl));
  s.check(hid_t{s.file}, "create the file with", "/");
  s.file_identity = identity(path);
  if (s.file_identity) files_being_written().insert(*s.file_identity);
}

Hdf5Writer::~Hdf5Writer() {
  const Session session;
  if (state_->failed) {
    for (State::Entry& entry : state_->entries) entry.id.release();
    state_->file.release();
    return;
  }
  state_->entries.clear();
  state_->file.reset();
  if (state_->file_identity) files_being_written().erase(*state_->file_identity);
}

const std::string& Hdf5Writer::path() const {
  return state_->path;
}
void Hdf5Writer::renamed(const std::string& path) {
  state_->path = path;
}
bool Hdf5Writer::failed() const {
  return state_->failed;
}

void Hdf5Writer::create_group(const std::string& object) {
  const Session session;
  State& s = *state_;
  s.require_usable();
  const Handle gcpl(H5Pcreate(H5P_GROUP_CREATE));
  H5Pset_link_creation_order(gcpl, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  H5Pset_attr_creation_order(gcpl, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  const Handle group(H5Gcreate2(s.file, object.c_str(), H5P_DEFAULT, gcpl, H5P_DEFAULT));
  s.check(hid_t{group}, "create", object);
}

Hdf5Writer::Dataset Hdf5Writer::create_rows(const RowsSpec& spec) {
  const Session session;
  State& s = *state_;
  s.require_usable();
  std::vector<hsize_t> extents = {0}, most = {H5S_UNLIMITED}, chunk = {spec.chunk_rows};
  for (const uint64_t extent : spec.row_shape) {
    extents.push_back(extent);
    most.push_back(extent);
    chunk.push_back(extent);
  }
  const int rank = static_cast<int>(extents.size());
  const Handle space(H5Screate_simple(rank, extents.data(), most.data())), dcpl(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_chunk(dcpl, rank, chunk.data());
  H5Pset_attr_creation_order(dcpl, H5P_CRT_ORDER_TRACKED);
  if (spec.compress) {
    H5Pset_shuffle(dcpl);
    H5Pset_deflate(dcpl, 4);
  }
  const double nan = std::nan("");
  const int64_t minus_one = -1;
  if (spec.type == Hdf5Type::i64) {
    H5Pset_fill_value(dcpl, H5T_NATIVE_INT64, &minus_one);
  } else {
    H5Pset_fill_value(dcpl, H5T_NATIVE_DOUBLE, &nan);
  }
  State::Entry entry;
  entry.id = Handle(H5Dcreate2(s.file, spec.object.c_str(), native(spec.type), space, H5P_DEFAULT, dcpl, H5P_DEFAULT));
  s.check(hid_t{entry.id}, "create", spec.object);
  entry.type = spec.type;
  entry.shape = extents;
  entry.object = spec.object;
  s.entries.push_back(std::move(entry));
  return s.entries.size() - 1;
}

Hdf5Writer::Dataset Hdf5Writer::create(const std::string& object, const std::vector<uint64_t>& shape,
                                       const std::vector<float>& values) {
  const Session session;
  return state_->create_numbers(object, shape, values, Hdf5Type::f32);
}

Hdf5Writer::Dataset Hdf5Writer::create(const std::string& object, const std::vector<uint64_t>& shape,
                                       const std::vector<double>& values) {
  const Session session;
  return state_->create_numbers(object, shape, values, Hdf5Type::f64);
}

Hdf5Writer::Dataset Hdf5Writer::create(const std::string& object, const std::vector<uint64_t>& shape,
                                       const std::vector<int64_t>& values) {
  const Session session;
  return state_->create_numbers(object, shape, values, Hdf5Type::i64);
}

Hdf5Writer::Dataset Hdf5Writer::create(const std::string& object, const std::vector<uint64_t>& shape,
                                       const std::vector<std::string>& values) {
  const Session session;
  state_->check_count(object, shape, values.size());
  std::vector<std::string> clean;
  clean.reserve(values.size());
  for (const std::string& value : values) clean.push_back(as_utf8(value));
  std::vector<const char*> pointers;
  pointers.reserve(clean.size());
  for (const std::string& value : clean) pointers.push_back(value.c_str());
  const Handle type = string_type();
  return state_->create(object, type, shape, static_cast<const void*>(pointers.data()), Hdf5Type::i64);
}

void Hdf5Writer::set_attribute(const std::string& object, const std::string& name, const Hdf5Attribute& value) {
  const Session session;
  State& s = *state_;
  s.require_usable();
  const auto put = [&](hid_t type, const void* data) {
    const Handle space(H5Screate(H5S_SCALAR));
    const Handle attribute(
        H5Acreate_by_name(s.file, object.c_str(), name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    s.check(hid_t{attribute}, "create attribute '" + name + "' of", object);
    s.check(H5Awrite(attribute, type, data), "write attribute '" + name + "' of", object);
  };
  if (const auto* integer = std::get_if<int64_t>(&value)) put(H5T_NATIVE_INT64, integer);
  if (const auto* real = std::get_if<double>(&value)) put(H5T_NATIVE_DOUBLE, real);
  if (const auto* text = std::get_if<std::string>(&value)) {
    const std::string clean = as_utf8(*text);
    const char* pointer = clean.c_str();
    const Handle type = string_type();
    put(type, static_cast<const void*>(&pointer));
  }
}

void Hdf5Writer::make_scale(Dataset dataset, const std::string& name) {
  const Session session;
  State& s = *state_;
  s.require_usable();
  const State::Entry& entry = s.entries.at(dataset);
  s.check(H5DSset_scale(entry.id, name.c_str()), "make a scale of", entry.object);
}

void Hdf5Writer::attach_scale(Dataset dataset, unsigned dimension, Dataset scale) {
  const Session session;
  State& s = *state_;
  s.require_usable();
  const State::Entry& entry = s.entries.at(dataset);
  s.check(H5DSattach_scale(entry.id, s.entries.at(scale).id, dimension), "attach a scale to", entry.object);
}

void Hdf5Writer::start_swmr() {
  const Session session;
  State& s = *state_;
  s.require_usable();
  s.check(H5Fstart_swmr_write(s.file), "start the SWMR mode of", "/");
}

void Hdf5Writer::append(Dataset dataset, uint64_t rows, const void* data) {
  const Session session;
  State& s = *state_;
  s.require_usable();
  if (rows == 0) return;
  State::Entry& entry = s.entries.at(dataset);
  std::vector<hsize_t> start(entry.shape.size(), 0), count = entry.shape;
  start[0] = entry.shape[0];
  count[0] = rows;
  entry.shape[0] += rows;
  s.check(H5Dset_extent(entry.id, entry.shape.data()), "extend", entry.object);
  const Handle in_file(H5Dget_space(entry.id)),
      in_memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
  s.check(hid_t{in_file}, "append to", entry.object);
  s.check(H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), "append to",
          entry.object);
  s.check(H5Dwrite(entry.id, native(entry.type), in_memory, in_file, H5P_DEFAULT, data), "append to", entry.object);
}

void Hdf5Writer::overwrite(Dataset dataset, const void* data) {
  const Session session;
  State& s = *state_;
  s.require_usable();
  const State::Entry& entry = s.entries.at(dataset);
  s.check(H5Dwrite(entry.id, native(entry.type), H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "write", entry.object);
}

void Hdf5Writer::flush(Dataset dataset) {
  const Session session;
  State& s = *state_;
  s.require_usable();
  const State::Entry& entry = s.entries.at(dataset);
  s.check(H5Dflush(entry.id), "flush", entry.object);
}

void Hdf5Writer::flush_file() {
  const Session session;
  State& s = *state_;
  s.require_usable();
  s.check(H5Fflush(s.file, H5F_SCOPE_LOCAL), "flush", "/");
}

void Hdf5Writer::sync() {
  const Session session;
  State& s = *state_;
  s.require_usable();
  void* handle = nullptr;
  s.check(H5Fget_vfd_handle(s.file, H5P_DEFAULT, &handle), "sync", "/");
  if (fdatasync(*static_cast<const int*>(handle)) != 0 && errno != EINVAL && errno != ENOTSUP) {
    const std::string reason = std::strerror(errno);
    s.failed = true;
    throw Hdf5Error("'" + s.path + "': cannot sync (" + reason + ")");
  }
}

void Hdf5Writer::close() {
  const Session session;
  State& s = *state_;
  s.require_usable();
  for (State::Entry& entry : s.entries) {
    const hid_t id = entry.id;
    entry.id.release();
    s.check(H5Dclose(id), "close", entry.object);
  }
  s.entries.clear();
  const hid_t id = s.file;
  s.file.release();
  s.check(H5Fclose(id), "close", "/");
  if (s.file_identity) files_being_written().erase(*s.file_identity);
}

std::string as_utf8(std::string_view text) {
  std::string without_nul(text);
  std::erase(without_nul, '\0');
  const std::string quoted = nlohmann::json(without_nul).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(quoted).get<std::string>();
}

}  // namespace ropewalk
