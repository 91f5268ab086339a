#include "train/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "storage_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

const std::string kConformanceFile = ROPEWALK_TEST_DATA "/conformance.h5";

const Hdf5File& conformance_file() {
  static const Hdf5File file = read_hdf5(kConformanceFile, Hdf5Access::complete);
  return file;
}

/// A file with one case of the conformance file.
Hdf5File only(const std::string& name) {
  Hdf5File file;
  file.path = "one.h5";
  const auto belongs = [&](const std::string& object) {
    return object == "/" + name || object.rfind("/" + name + "/", 0) == 0;
  };
  for (const auto& [object, attributes] : conformance_file().attributes) {
    if (object == "/" || belongs(object)) file.attributes[object] = attributes;
  }
  for (const auto& [object, dataset] : conformance_file().datasets) {
    if (belongs(object)) file.datasets[object] = dataset;
  }
  return file;
}

std::vector<double>& reals(Hdf5File& file, const std::string& object) {
  return std::get<std::vector<double>>(file.datasets.at(object).values);
}
std::vector<int64_t>& integers(Hdf5File& file, const std::string& object) {
  return std::get<std::vector<int64_t>>(file.datasets.at(object).values);
}

double largest(const std::vector<double>& values) {
  double out = 0.0;
  for (const double value : values) out = std::max(out, std::abs(value));
  return out;
}

/// Each part stands in the text.
void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
  }
}

void remove(Hdf5File& file, const std::string& object) {
  ASSERT_EQ(file.datasets.erase(object), 1U) << object;
  file.attributes.erase(object);
}

void expect_error(const Hdf5File& file, const std::string& object) {
  expect_parts(message_of<Hdf5Error>([&] { verify_conformance(file); }), {"one.h5", object});
}

TEST(Verify, EveryCaseOfTheConformanceFileThatThisVersionHasPasses) {
  const VerifyReport report = verify_conformance(kConformanceFile);
  EXPECT_EQ(report.failed, 0);
  EXPECT_TRUE(report.failures.empty()) << report.failures.front();
  EXPECT_GE(report.passed, 123);
  int cases = 0;
  for (const VerifyLine& line : report.lines) cases += line.cases;
  EXPECT_EQ(cases, report.passed + report.unsupported);
  EXPECT_EQ(static_cast<std::size_t>(cases), conformance_file().children("/").size());
}

TEST(Verify, RoundingShowsInSinglePrecisionOnly) {
  // Zero would mean that nothing was compared, or that single precision never ran.
  for (const VerifyLine& line : verify_conformance(conformance_file()).lines) {
    if (line.op != "attention" && line.op != "model" && line.op != "train") continue;
    EXPECT_GT(line.worst_f32, 1e-8) << line.op;
    EXPECT_GT(line.worst_f64, 0.0) << line.op;
    EXPECT_LT(line.worst_f64, 1e-12) << line.op;
  }
}

TEST(Verify, BoundsBelowRoundingFailTheCases) {
  const VerifyReport double_fails = verify_conformance(only("linear"), {.f64 = 1e-18});
  EXPECT_EQ(double_fails.failed, 1);
  expect_parts(double_fails.failures.at(0), {" in f64, bound 1e-18"});
  const VerifyReport single_fails = verify_conformance(only("linear"), {.f32 = 1e-9});
  EXPECT_EQ(single_fails.passed, 0);
  EXPECT_EQ(single_fails.failed, 1);
  expect_parts(single_fails.failures.at(0), {" in f32, bound 1e-09"});
}

class PlantedError : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(PlantedError, IsFoundAndNamed) {
  const auto [name, dataset] = GetParam();
  const std::string object = std::string("/") + name + "/" + dataset;
  Hdf5File file = only(name);
  ASSERT_EQ(verify_conformance(file).passed, 1);
  // Beyond both bounds, and small beside the values: 0.1 % of the greatest of the dataset.
  std::vector<double>& values = reals(file, object);
  values.back() += 1e-3 * largest(values);
  const VerifyReport report = verify_conformance(file);
  EXPECT_EQ(report.passed, 0);
  EXPECT_EQ(report.failed, 1);
  ASSERT_EQ(report.failures.size(), 1U);
  expect_parts(report.failures[0], {std::string(name) + ": " + dataset + " is off by "});
  expect_parts(to_text(report), {"FAIL", "0 passed, 1 failed, 0 unsupported\n"});
}

INSTANTIATE_TEST_SUITE_P(
    InEachKindOfTruth, PlantedError,
    ::testing::Values(std::pair{"layer_norm_0", "outputs/y"}, std::pair{"layer_norm_0", "input_grads/x"},
                      std::pair{"layer_norm_0", "input_grads/weight"}, std::pair{"rope_0", "input_grads/x"},
                      std::pair{"sinusoidal_0", "outputs/table"},
                      std::pair{"attention_15_t5", "input_grads/relative_bias"}, std::pair{"hadamard", "outputs/y"},
                      std::pair{"hadamard", "input_grads/x"}, std::pair{"index_scores_0", "outputs/scores"},
                      std::pair{"index_scores_0", "input_grads/q"}, std::pair{"index_scores_1", "input_grads/k"},
                      std::pair{"index_scores_1", "input_grads/w"}, std::pair{"model_alibi_pre", "outputs/logits"},
                      std::pair{"model_alibi_pre", "outputs/loss"}, std::pair{"model_alibi_pre", "residual_grad_norm"},
                      std::pair{"model_alibi_pre", "parameter_grads/token_embedding.weight"},
                      std::pair{"train_cosine", "outputs/loss"}, std::pair{"train_cosine", "outputs/grad_norm"},
                      std::pair{"train_cosine", "final_parameters/position_embedding.weight"}));

TEST(Verify, AWrongCotangentOrInputFailsToo) {
  Hdf5File file = only("linear");
  reals(file, "/linear/output_grads/y")[0] += 0.5;
  ASSERT_EQ(verify_conformance(file).failed, 1);
  expect_parts(verify_conformance(file).failures.at(0), {"linear: input_grads/"});
  file = only("linear");
  reals(file, "/linear/inputs/x")[0] += 0.5;
  EXPECT_EQ(verify_conformance(file).failed, 1);
  file = only("t5_bucket_0");
  integers(file, "/t5_bucket_0/outputs/bucket")[3] += 1;
  EXPECT_EQ(verify_conformance(file).failed, 1);
  file = only("top_k_1");
  ASSERT_EQ(verify_conformance(file).passed, 1);
  integers(file, "/top_k_1/outputs/mask")[0] ^= 1;
  EXPECT_EQ(verify_conformance(file).failed, 1);
  file = only("top_k_1");
  file.attributes["/top_k_1"]["k"] = int64_t{3};
  EXPECT_EQ(verify_conformance(file).failed, 1) << "another k selects other keys";
}

TEST(Verify, NotANumberIsNeverInsideABound) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Hdf5File file = only("linear");
    reals(file, "/linear/inputs/x")[0] = bad;
    EXPECT_EQ(verify_conformance(file).failed, 1);
    file = only("linear");
    reals(file, "/linear/outputs/y")[0] = bad;
    EXPECT_EQ(verify_conformance(file, {.f64 = 1e300, .f32 = 1e300}).failed, 1);
  }
}

TEST(Verify, TheErrorIsRelativeToTheGroupNotToTheDataset) {
  // The true gradient of a key bias without rotation is zero but for rounding.
  Hdf5File file = only("model_none_pre");
  const std::string object = "/model_none_pre/parameter_grads/blocks.0.attention.key.bias";
  ASSERT_LT(largest(reals(file, object)), 1e-12);
  reals(file, object)[0] += 1e-13;
  EXPECT_EQ(verify_conformance(file).passed, 1);
  reals(file, object)[0] += 1e-3;
  expect_parts(verify_conformance(file).failures.at(0), {"blocks.0.attention.key.bias"});
}

TEST(Verify, AnOperationOfAnotherVersionIsUnsupported) {
  Hdf5File file = only("softmax");
  file.attributes["/softmax"]["op"] = std::string("softmax_of_tomorrow");
  VerifyReport report = verify_conformance(file);
  EXPECT_EQ(report.unsupported, 1);
  EXPECT_EQ(report.passed + report.failed, 0);
  EXPECT_EQ(report.lines.at(0).op, "softmax_of_tomorrow");
  expect_parts(to_text(report), {"unsupported\n0 passed, 0 failed, 1 unsupported\n"});
  file = only("activation_relu");
  file.attributes["/activation_relu"]["kind"] = std::string("mish");
  EXPECT_EQ(verify_conformance(file).unsupported, 1);
}

TEST(Verify, AConfigurationThatIsRefusedIsAFailureThatSaysWhy) {
  Hdf5File file = only("model_rope_pre");
  file.attributes["/model_rope_pre"]["config"] = std::string("[model]\nn_layer = 2\n");
  const VerifyReport report = verify_conformance(file);
  EXPECT_EQ(report.failed, 1);
  expect_parts(report.failures.at(0), {"model_rope_pre: refused: ", "model.n_layer"});
}

TEST(Verify, AMissingPartIsAnErrorThatNamesFileAndObject) {
  for (const std::string object :
       {"/linear/inputs/bias", "/linear/outputs/y", "/linear/output_grads/y", "/linear/input_grads/weight"}) {
    Hdf5File file = only("linear");
    remove(file, object);
    expect_error(file, object);
  }
  for (const std::string object :
       {"/model_t5_pre/residual_grad_norm", "/model_t5_pre/outputs/logits", "/model_t5_pre/inputs/targets",
        "/model_t5_pre/parameters/relative_bias.weight", "/model_t5_pre/parameter_grads/blocks.1.ffn.up.bias"}) {
    Hdf5File file = only("model_t5_pre");
    remove(file, object);
    expect_error(file, object);
  }
  Hdf5File file = only("layer_norm_0");
  file.attributes["/layer_norm_0"].erase("eps");
  expect_error(file, "'eps'");
  file = only("layer_norm_0");
  file.attributes["/layer_norm_0"].erase("op");
  expect_error(file, "/layer_norm_0");
}

TEST(Verify, AWrongShapeTypeOrValueIsAnErrorThatNamesFileAndObject) {
  Hdf5File file = only("linear");
  file.datasets["/linear/inputs/bias"].shape = {3, 3};
  expect_error(file, "/linear/inputs/bias");
  file = only("linear");
  file.datasets["/linear/outputs/y"].shape = {10, 9};
  expect_error(file, "/linear/outputs/y");
  file = only("linear");
  file.datasets["/linear/inputs/x"] = {.shape = {0, 12}, .values = std::vector<double>{}};
  expect_error(file, "/linear/inputs/x");
  file = only("linear");
  file.datasets["/linear/inputs/weight"].values = std::vector<int64_t>(108);
  expect_error(file, "/linear/inputs/weight");
  file = only("embedding");
  integers(file, "/embedding/inputs/ids")[5] = 11;
  expect_error(file, "/embedding/inputs/ids");
  file = only("cross_entropy_plain");
  for (int64_t& target : integers(file, "/cross_entropy_plain/inputs/targets")) target = -1;
  expect_error(file, "/cross_entropy_plain/inputs/targets");
  file = only("attention_00_none");
  file.datasets["/attention_00_none/inputs/k"].shape[2] *= 2;
  file.datasets["/attention_00_none/inputs/k"].shape[3] /= 2;
  expect_error(file, "/attention_00_none/inputs/k");
  file = only("top_k_0");
  file.attributes["/top_k_0"]["k"] = int64_t{0};
  expect_error(file, "'k' = 0");
  file = only("top_k_0");
  file.datasets["/top_k_0/inputs/scores"].shape = {2, 27, 3};
  expect_error(file, "/top_k_0/inputs/scores");
  file = only("index_scores_0");
  file.datasets["/index_scores_0/inputs/w"].shape = {2, 3, 9};
  expect_error(file, "/index_scores_0/inputs/w");
  file = only("t5_bucket_0");
  file.attributes["/t5_bucket_0"]["max_distance"] = int64_t{1};
  expect_error(file, "'max_distance' = 1");
  file = only("sinusoidal_0");
  file.attributes["/sinusoidal_0"]["length"] = int64_t{1} << 50;
  expect_error(file, "'length'");
}

TEST(Verify, ATruthThatNothingIsComparedWithIsAnError) {
  Hdf5File file = only("softmax");
  file.datasets["/softmax/outputs/z"] = file.datasets["/softmax/outputs/y"];
  file.attributes["/softmax/outputs/z"];
  expect_error(file, "/softmax/outputs/z");
}

TEST(Verify, AnEnormousModelIsRefusedBeforeMemoryIsTaken) {
  for (const std::string key : {"n_layers", "d_model", "n_heads", "d_ff", "vocab_size"}) {
    Hdf5File file = only("model_rope_pre");
    auto& config = std::get<std::string>(file.attributes["/model_rope_pre"]["config"]);
    const auto at = config.find("\n" + key + " = ");
    ASSERT_NE(at, std::string::npos) << key;
    config.replace(at, config.find('\n', at + 1) - at, "\n" + key + " = 60000");
    try {
      EXPECT_EQ(verify_conformance(file).failed, 1) << key;
    } catch (const Hdf5Error& error) {
      expect_parts(error.what(), {"/model_rope_pre/parameters"});
    }
  }
}

TEST(Verify, AForeignTruncatedOrAbsentFileIsAnErrorThatNamesIt) {
  const TemporaryDirectory dir;
  {
    Hdf5Writer file(dir / "foreign.h5");
    file.set_attribute("/", "format", std::string("weather"));
    file.create("/temperature", {2}, std::vector<double>{20, 21});
    file.close();
  }
  expect_parts(message_of<Hdf5Error>([&] { verify_conformance(dir / "foreign.h5"); }),
               {"foreign.h5", "no conformance file"});
  {
    Hdf5Writer file(dir / "empty.h5");
    file.set_attribute("/", "format", std::string("ropewalk-conformance"));
    file.set_attribute("/", "format_version", int64_t{1});
    file.close();
  }
  expect_parts(message_of<Hdf5Error>([&] { verify_conformance(dir / "empty.h5"); }), {"holds no case"});
  {
    Hdf5Writer file(dir / "later.h5");
    file.set_attribute("/", "format", std::string("ropewalk-conformance"));
    file.set_attribute("/", "format_version", int64_t{2});
    file.close();
  }
  expect_parts(message_of<Hdf5Error>([&] { verify_conformance(dir / "later.h5"); }), {"format_version = 2"});
  {
    Hdf5Writer file(dir / "flat.h5");
    file.set_attribute("/", "format", std::string("ropewalk-conformance"));
    file.set_attribute("/", "format_version", int64_t{1});
    file.create("/softmax", {2}, std::vector<double>{20, 21});
    file.close();
  }
  expect_parts(message_of<Hdf5Error>([&] { verify_conformance(dir / "flat.h5"); }), {"'/softmax'"});
  const std::string bytes = read_text(kConformanceFile);
  ASSERT_GT(bytes.size(), 1000U);
  write_text(dir / "cut.h5", bytes.substr(0, bytes.size() / 2));
  expect_parts(message_of<Hdf5Error>([&] { verify_conformance(dir / "cut.h5"); }), {"cut.h5"});
  write_text(dir / "text.h5", "no HDF5 file at all\n");
  expect_parts(message_of<Hdf5Error>([&] { verify_conformance(dir / "text.h5"); }), {"text.h5"});
  expect_parts(message_of<Hdf5Error>([&] { verify_conformance(dir / "absent.h5"); }), {"absent.h5"});
}

TEST(Verify, TheTextHasALineForEachOperationAndTheSum) {
  VerifyReport report;
  report.lines = {{.op = "rope", .cases = 6, .worst_f64 = 1.6e-16, .worst_f32 = 1.1e-7},
                  {.op = "model", .cases = 50, .failed = 2, .unsupported = 4, .worst_f64 = 0.3, .worst_f32 = 0.31},
                  {.op = "top_k_mask", .cases = 2, .unsupported = 2}};
  report.passed = 50;
  report.failed = 2;
  report.unsupported = 6;
  EXPECT_EQ(to_text(report),
            "op          cases  worst f64  worst f32\n"
            "rope            6    1.6e-16    1.1e-07  ok\n"
            "model          50    3.0e-01    3.1e-01  FAIL (2 of 50) (4 unsupported)\n"
            "top_k_mask      2          -          -  unsupported\n"
            "50 passed, 2 failed, 6 unsupported\n");
}

}  // namespace
}  // namespace ropewalk
