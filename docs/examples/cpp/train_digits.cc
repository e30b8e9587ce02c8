// SPDX-License-Identifier: Apache-2.0
// Data-parallel training with Rondel: a network with one hidden layer learns the UCI handwritten digits.
// Every rank holds all parameters and works on its part of each batch; one all-reduce per step makes the
// gradients equal, so that the parameters stay equal bit for bit. Run it alone, or with `rondelrun -np 4
// train_digits`.
#include <rondel.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kPixels = 64;
constexpr std::size_t kDigits = 10;
constexpr float kLearningRate = 0.1F;
constexpr float kMomentum = 0.9F;
constexpr double kWantedAccuracy = 0.95;
constexpr std::size_t kTestEvery = 5;  // every fifth image is kept for the test

struct Settings {
  std::size_t epochs = 20;
  std::size_t batch = 64;  // over all ranks
  std::size_t hidden = 64;
  std::uint64_t seed = 1;
  std::string data = "docs/examples/data/digits.csv";
  std::string save;  // where rank 0 writes the final parameters; empty: nowhere
};

struct Image {
  std::array<float, kPixels> pixels{};  // 0 to 1
  std::size_t digit = 0;
};

struct Data {
  std::vector<Image> train, test;
};

struct FreeComm {
  void operator()(rondel_comm* comm) const { rondel_destroy(comm); }
};
struct FreeMemory {
  void operator()(float* memory) const { rondel_free(memory); }
};
using Comm = std::unique_ptr<rondel_comm, FreeComm>;
using Floats = std::unique_ptr<float[], FreeMemory>;

/// True when the call went well; else says on stderr what Rondel knows about the failure.
bool went_well(rondel_status_t status, rondel_comm_t comm, const char* what) {
  if (status == RONDEL_OK) return true;
  rondel_error_t error = RONDEL_ERROR_INIT;
  rondel_last_error(comm, &error);
  std::fprintf(stderr, "train_digits: %s: %s\n", what, error.text);
  return false;
}

/// SplitMix64 (Steele, Lea and Flood 2014): the same numbers on every rank and machine, unlike std::shuffle.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  /// Even in -1 to 1.
  float symmetric() { return static_cast<float>(static_cast<double>(next() >> 11) * 0x1p-52 - 1.0); }
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(next() % limit); }

 private:
  std::uint64_t state_;
};

/// The parameters (and gradients) as one flat array: hidden weights, hidden biases, output weights, output
/// biases.
class Network {
 public:
  explicit Network(std::size_t hidden) : hidden_(hidden), activation_(hidden), hidden_error_(hidden) {}

  std::size_t parameter_count() const { return hidden_ * (kPixels + 1) + kDigits * (hidden_ + 1); }

  void initialise(float* parameters, Random& random) const {
    const float first = std::sqrt(3.0F / kPixels);
    const float second = std::sqrt(3.0F / static_cast<float>(hidden_));
    std::fill_n(parameters, parameter_count(), 0.0F);
    std::generate_n(parameters, hidden_ * kPixels, [&random, first] { return first * random.symmetric(); });
    std::generate_n(parameters + output_weights(), kDigits * hidden_,
                    [&random, second] { return second * random.symmetric(); });
  }

  /// The probability of each digit.
  const std::array<float, kDigits>& predict(const float* parameters, const Image& image) {
    for (std::size_t h = 0; h < hidden_; ++h)
      activation_[h] =
          std::tanh(std::inner_product(image.pixels.begin(), image.pixels.end(), parameters + h * kPixels,
                                       parameters[hidden_ * kPixels + h]));
    const float* biases = parameters + output_weights() + kDigits * hidden_;
    for (std::size_t d = 0; d < kDigits; ++d)
      output_[d] = std::inner_product(activation_.begin(), activation_.end(),
                                      parameters + output_weights() + d * hidden_, biases[d]);
    const float largest = *std::max_element(output_.begin(), output_.end());
    for (float& value : output_) value = std::exp(value - largest);
    const float sum = std::accumulate(output_.begin(), output_.end(), 0.0F);
    for (float& value : output_) value /= sum;
    return output_;
  }

  /// Adds `share` times the image's gradient of the cross-entropy to `gradient`, and returns the loss.
  float learn(const float* parameters, const Image& image, float share, float* gradient) {
    predict(parameters, image);
    const float loss = -std::log(std::max(output_[image.digit], 1e-30F));
    std::fill(hidden_error_.begin(), hidden_error_.end(), 0.0F);
    for (std::size_t d = 0; d < kDigits; ++d) {
      const float error = share * (output_[d] - (d == image.digit ? 1.0F : 0.0F));
      const std::size_t row = output_weights() + d * hidden_;
      for (std::size_t h = 0; h < hidden_; ++h) {
        gradient[row + h] += error * activation_[h];
        hidden_error_[h] += error * parameters[row + h];
      }
      gradient[output_weights() + kDigits * hidden_ + d] += error;
    }
    for (std::size_t h = 0; h < hidden_; ++h) {
      const float error = hidden_error_[h] * (1.0F - activation_[h] * activation_[h]);
      for (std::size_t p = 0; p < kPixels; ++p) gradient[h * kPixels + p] += error * image.pixels[p];
      gradient[hidden_ * kPixels + h] += error;
    }
    return loss;
  }

  double accuracy(const float* parameters, const std::vector<Image>& images) {
    std::size_t right = 0;
    for (const Image& image : images) {
      const auto& chances = predict(parameters, image);
      const auto best = std::max_element(chances.begin(), chances.end()) - chances.begin();
      right += static_cast<std::size_t>(best) == image.digit ? 1 : 0;
    }
    return static_cast<double>(right) / static_cast<double>(images.size());
  }

 private:
  std::size_t output_weights() const { return hidden_ * (kPixels + 1); }

  std::size_t hidden_;
  std::vector<float> activation_, hidden_error_;
  std::array<float, kDigits> output_{};
};

std::optional<Image> parse_image(const std::string& line) {
  std::istringstream fields(line);
  std::array<int, kPixels + 1> numbers{};
  for (std::size_t i = 0; i <= kPixels; ++i) {
    char comma = ',';
    if (i > 0 && (!(fields >> comma) || comma != ',')) return std::nullopt;
    if (!(fields >> numbers[i])) return std::nullopt;
  }
  Image image;
  for (std::size_t p = 0; p < kPixels; ++p) {
    if (numbers[p] < 0 || numbers[p] > 16) return std::nullopt;
    image.pixels[p] = static_cast<float>(numbers[p]) / 16.0F;
  }
  if (numbers[kPixels] < 0 || numbers[kPixels] > 9) return std::nullopt;
  image.digit = static_cast<std::size_t>(numbers[kPixels]);
  return image;
}

std::optional<Data> load(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(
        stderr,
        "train_digits: can not read the images in '%s'; run from the top of Rondel's source tree, or give "
        "the path of digits.csv with --data\n",
        path.c_str());
    return std::nullopt;
  }
  Data data;
  std::string line;
  for (std::size_t number = 0; std::getline(file, line); ++number) {
    const std::optional<Image> image = parse_image(line);
    if (!image) {
      std::fprintf(stderr,
                   "train_digits: %s:%zu: wanted 64 numbers from 0 to 16 and a digit, commas between\n",
                   path.c_str(), number + 1);
      return std::nullopt;
    }
    (number % kTestEvery == kTestEvery - 1 ? data.test : data.train).push_back(*image);
  }
  if (data.train.empty() || data.test.empty()) {
    std::fprintf(stderr, "train_digits: '%s' holds fewer than %zu images\n", path.c_str(), kTestEvery);
    return std::nullopt;
  }
  return data;
}

void usage() {
  std::puts(
      "usage: train_digits [--epochs N] [--batch N] [--seed N] [--hidden N] [--data FILE] [--save FILE]\n"
      "Trains a small network on handwritten digits, on as many ranks as rondelrun starts.\n"
      "  --epochs N   passes over the training images (20)\n"
      "  --batch N    images per step, over all ranks (64)\n"
      "  --seed N     of the first parameters and the order of the images (1)\n"
      "  --hidden N   size of the hidden layer (64)\n"
      "  --data FILE  the images (docs/examples/data/digits.csv)\n"
      "  --save FILE  where rank 0 writes the final parameters, as float32");
}

bool parse_number(const char* text, std::uint64_t least, std::uint64_t* value) {
  char* end = nullptr;
  *value = std::strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0' && *value >= least && *value <= 1'000'000'000;
}

bool set_option(Settings& settings, std::string_view name, const char* value) {
  std::uint64_t number = 0;
  if (name == "--data") return settings.data = value, true;
  if (name == "--save") return settings.save = value, true;
  if (!parse_number(value, name == "--seed" ? 0 : 1, &number)) return false;
  if (name == "--epochs") return settings.epochs = number, true;
  if (name == "--batch") return settings.batch = number, true;
  if (name == "--hidden") return settings.hidden = number, true;
  if (name == "--seed") return settings.seed = number, true;
  return false;
}

std::optional<Settings> parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 < argc && set_option(settings, argv[i], argv[i + 1])) continue;
    std::fprintf(stderr, "train_digits: can not use '%s%s%s'; see --help\n", argv[i], i + 1 < argc ? " " : "",
                 i + 1 < argc ? argv[i + 1] : "");
    return std::nullopt;
  }
  return settings;
}

class Trainer {
 public:
  Trainer(const Settings& settings, const Data& data, rondel_comm_t comm)
      : settings_(settings),
        data_(data),
        comm_(comm),
        random_(settings.seed),
        network_(settings.hidden),
        parameters_(network_.parameter_count()),
        velocity_(network_.parameter_count()),
        order_(data.train.size()) {
    network_.initialise(parameters_.data(), random_);
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }

  /// The process's exit code.
  int run() {
    void* memory = nullptr;
    const std::size_t bytes = (network_.parameter_count() + 1) * sizeof(float);
    if (!went_well(rondel_alloc(bytes, &memory), nullptr, "memory for the gradient")) return 1;
    gradient_.reset(static_cast<float*>(memory));
    double accuracy = 0;
    for (std::size_t epoch = 1; epoch <= settings_.epochs; ++epoch) {
      if (!train_epoch(epoch)) return 1;
      if (leader()) accuracy = report_epoch(epoch);
    }
    if (!report_exchange() || !compare_ranks() || !save()) return 1;
    if (!leader() || accuracy >= kWantedAccuracy) return 0;
    std::fprintf(stderr,
                 "train_digits: test accuracy %.2f %% is below the wanted %.0f %%; train for more epochs\n",
                 accuracy * 100, kWantedAccuracy * 100);
    return 1;
  }

 private:
  bool leader() const { return rondel_rank(comm_) == 0; }

  bool train_epoch(std::size_t epoch) {
    // Fisher and Yates; every rank draws the same numbers and so the same order.
    for (std::size_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[random_.below(i + 1)]);
    loss_ = 0;
    for (std::size_t begin = 0; begin < order_.size(); begin += settings_.batch) {
      if (!step(begin, std::min(settings_.batch, order_.size() - begin))) return false;
      show_progress(epoch, begin);
    }
    return true;
  }

  /// One step on the images order_[begin, begin + count): this rank's part, the sum over ranks, the update.
  bool step(std::size_t begin, std::size_t count) {
    const std::size_t parameters = parameters_.size();
    const auto size = static_cast<std::size_t>(rondel_size(comm_));
    const auto rank = static_cast<std::size_t>(rondel_rank(comm_));
    // Shares are of the whole batch, so that the sum over ranks is its mean even where parts differ in size.
    const float share = 1.0F / static_cast<float>(count);
    std::fill_n(gradient_.get(), parameters + 1, 0.0F);
    for (std::size_t i = begin + count * rank / size; i < begin + count * (rank + 1) / size; ++i)
      gradient_[parameters] +=
          share * network_.learn(parameters_.data(), data_.train[order_[i]], share, gradient_.get());

    const auto start = std::chrono::steady_clock::now();
    if (!went_well(rondel_allreduce(comm_, gradient_.get(), gradient_.get(), parameters + 1, RONDEL_FLOAT32,
                                    RONDEL_SUM),
                   comm_, "sum of the gradients"))
      return false;
    exchanging_ += std::chrono::steady_clock::now() - start;

    ++steps_;
    loss_ += static_cast<double>(gradient_[parameters]) * static_cast<double>(count) /
             static_cast<double>(order_.size());
    for (std::size_t i = 0; i < parameters; ++i) {
      velocity_[i] = kMomentum * velocity_[i] - kLearningRate * gradient_[i];
      parameters_[i] += velocity_[i];
    }
    return true;
  }

  void show_progress(std::size_t epoch, std::size_t begin) const {
    if (!leader() || isatty(STDERR_FILENO) == 0) return;
    constexpr std::size_t kWidth = 40;
    const std::size_t all = settings_.epochs * order_.size();
    const std::size_t done = (epoch - 1) * order_.size() + std::min(begin + settings_.batch, order_.size());
    const std::string bar(kWidth * done / all, '#');
    std::fprintf(stderr, "\r[%-*s] %3zu %%", static_cast<int>(kWidth), bar.c_str(), 100 * done / all);
    if (done == all) std::fputs("\r\033[K", stderr);
  }

  double report_epoch(std::size_t epoch) {
    const double accuracy = network_.accuracy(parameters_.data(), data_.test);
    if (isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
    std::printf("epoch %3zu  loss %.4f  test accuracy %.2f %%\n", epoch, loss_, accuracy * 100);
    std::fflush(stdout);
    return accuracy;
  }

  bool report_exchange() const {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    if (!went_well(rondel_byte_counts(comm_, &sent, &received), comm_, "byte counts")) return false;
    if (!leader()) return true;
    const double seconds = std::max(std::chrono::duration<double>(exchanging_).count(), 1e-9);
    std::printf(
        "gradients: %zu all-reduces of %zu bytes; rank 0 sent %.2f MB and received %.2f MB in %.3f s, %.1f "
        "MB/s\n",
        steps_, (parameters_.size() + 1) * sizeof(float), static_cast<double>(sent) / 1e6,
        static_cast<double>(received) / 1e6, seconds, static_cast<double>(sent + received) / 1e6 / seconds);
    return true;
  }

  /// 64-bit FNV-1a over the bytes of the parameters.
  std::uint64_t checksum() const {
    std::uint64_t hash = 0xcbf29ce484222325U;
    const auto* bytes = reinterpret_cast<const unsigned char*>(parameters_.data());
    for (std::size_t i = 0; i < parameters_.size() * sizeof(float); ++i)
      hash = (hash ^ bytes[i]) * 0x100000001b3U;
    return hash;
  }

  bool compare_ranks() const {
    const std::uint64_t mine = checksum();
    std::vector<std::uint64_t> all(static_cast<std::size_t>(rondel_size(comm_)));
    if (!went_well(rondel_gather(comm_, &mine, all.data(), 1, RONDEL_INT64, 0), comm_, "checksums"))
      return false;
    if (!leader()) return true;
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      std::printf("rank %zu parameters %016llx\n", rank, static_cast<unsigned long long>(all[rank]));
    const auto other =
        std::find_if(all.begin(), all.end(), [mine](std::uint64_t sum) { return sum != mine; });
    if (other == all.end()) return true;
    std::fprintf(stderr, "train_digits: the parameters of rank %td differ from those of rank 0\n",
                 other - all.begin());
    return false;
  }

  bool save() const {
    if (!leader() || settings_.save.empty()) return true;
    std::ofstream file(settings_.save, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(parameters_.data()),
               static_cast<std::streamsize>(parameters_.size() * sizeof(float)));
    file.close();
    if (file) return true;
    std::fprintf(stderr, "train_digits: can not write the parameters to '%s'\n", settings_.save.c_str());
    return false;
  }

  const Settings& settings_;
  const Data& data_;
  rondel_comm_t comm_;
  Random random_;
  Network network_;
  std::vector<float> parameters_, velocity_;
  std::vector<std::size_t> order_;
  Floats gradient_;  // and the loss of the batch behind it
  double loss_ = 0;
  std::size_t steps_ = 0;
  std::chrono::steady_clock::duration exchanging_{};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--help") return usage(), 0;
  const std::optional<Settings> settings = parse(argc, argv);
  if (!settings) return 2;
  const std::optional<Data> data = load(settings->data);
  if (!data) return 1;

  rondel_comm_t started = nullptr;
  if (!went_well(rondel_init(nullptr, &started), nullptr, "start")) return 1;
  Comm comm(started);
  const int code = Trainer(*settings, *data, comm.get()).run();
  const bool ended = went_well(rondel_finalize(comm.release()), nullptr, "end");
  return code == 0 && !ended ? 1 : code;
}
