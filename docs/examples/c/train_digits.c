/* SPDX-License-Identifier: Apache-2.0 */
/* Data-parallel training with Rondel in plain C: a network with one hidden layer learns the UCI handwritten
 * digits. Every rank holds all parameters and works on its part of each batch; one all-reduce per step makes
 * the gradients equal, so that the parameters stay equal bit for bit. Run it alone, or with `rondelrun -np 4
 * train_digits_c`. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <math.h>
#include <rondel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kPixels = 64, kDigits = 10, kTestEvery = 5, kMostImages = 100000 };
static const float kLearningRate = 0.1F;
static const float kMomentum = 0.9F;
static const double kWantedAccuracy = 0.95;

typedef struct {
  size_t epochs, batch, hidden; /* batch: images per step, over all ranks */
  uint64_t seed;
  const char* data;
  const char* save; /* NULL: nowhere */
} settings_t;

typedef struct {
  float pixels[kPixels]; /* 0 to 1 */
  size_t digit;
} image_t;

typedef struct {
  image_t *train, *test;
  size_t train_count, test_count;
} data_t;

/* Parameters (and gradients) are one flat array: hidden weights, hidden biases, output weights, output
 * biases. */
typedef struct {
  size_t hidden, parameter_count;
  float *parameters, *velocity, *activation, *hidden_error;
  float* gradient; /* of rondel_alloc; the batch's loss is behind it */
  float output[kDigits];
} network_t;

typedef struct {
  size_t steps;
  double loss, seconds; /* loss of this epoch, time in all-reduce so far */
} progress_t;

/* 1 when the call went well; else says on stderr what Rondel knows about the failure. */
static int went_well(rondel_status_t status, rondel_comm_t comm, const char* what) {
  rondel_error_t error = RONDEL_ERROR_INIT;
  if (status == RONDEL_OK) return 1;
  rondel_last_error(comm, &error);
  fprintf(stderr, "train_digits_c: %s: %s\n", what, error.text);
  return 0;
}

/* SplitMix64 (Steele, Lea and Flood 2014): the same numbers on every rank and machine, unlike rand(). */
static uint64_t next_random(uint64_t* state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* Even in -limit to limit. */
static float symmetric_random(uint64_t* state, float limit) {
  return limit * (float)((double)(next_random(state) >> 11) * 0x1p-52 - 1.0);
}

static size_t output_weights(const network_t* net) { return net->hidden * (kPixels + 1); }

static int make_network(network_t* net, size_t hidden, uint64_t* random) {
  void* memory = NULL;
  memset(net, 0, sizeof *net);
  net->hidden = hidden;
  net->parameter_count = hidden * (kPixels + 1) + kDigits * (hidden + 1);
  net->parameters = calloc(net->parameter_count, sizeof(float));
  net->velocity = calloc(net->parameter_count, sizeof(float));
  net->activation = calloc(hidden, sizeof(float));
  net->hidden_error = calloc(hidden, sizeof(float));
  if (!went_well(rondel_alloc((net->parameter_count + 1) * sizeof(float), &memory), NULL,
                 "memory for the gradient"))
    return 0;
  net->gradient = memory;
  if (net->parameters == NULL || net->velocity == NULL || net->activation == NULL ||
      net->hidden_error == NULL) {
    fprintf(stderr, "train_digits_c: no memory for a hidden layer of %zu\n", hidden);
    return 0;
  }
  for (size_t i = 0; i < hidden * kPixels; ++i)
    net->parameters[i] = symmetric_random(random, sqrtf(3.0F / kPixels));
  for (size_t i = 0; i < kDigits * hidden; ++i)
    net->parameters[output_weights(net) + i] = symmetric_random(random, sqrtf(3.0F / (float)hidden));
  return 1;
}

static void free_network(network_t* net) {
  free(net->parameters);
  free(net->velocity);
  free(net->activation);
  free(net->hidden_error);
  rondel_free(net->gradient);
}

static float weighted_sum(const float* weights, const float* values, size_t count, float bias) {
  for (size_t i = 0; i < count; ++i) bias += values[i] * weights[i];
  return bias;
}

/* Leaves the probability of each digit in net->output. */
static void predict(network_t* net, const image_t* image) {
  const float* biases = net->parameters + net->hidden * kPixels;
  const float* weights = net->parameters + output_weights(net);
  float largest, sum = 0;
  for (size_t h = 0; h < net->hidden; ++h)
    net->activation[h] =
        tanhf(weighted_sum(net->parameters + h * kPixels, image->pixels, kPixels, biases[h]));
  for (size_t d = 0; d < kDigits; ++d)
    net->output[d] = weighted_sum(weights + d * net->hidden, net->activation, net->hidden,
                                  weights[kDigits * net->hidden + d]);
  largest = net->output[0];
  for (size_t d = 1; d < kDigits; ++d) largest = fmaxf(largest, net->output[d]);
  for (size_t d = 0; d < kDigits; ++d) sum += net->output[d] = expf(net->output[d] - largest);
  for (size_t d = 0; d < kDigits; ++d) net->output[d] /= sum;
}

/* Adds `share` times the image's gradient of the cross-entropy to net->gradient, and returns the loss. */
static float learn(network_t* net, const image_t* image, float share) {
  const size_t hidden = net->hidden, weights = output_weights(net);
  predict(net, image);
  memset(net->hidden_error, 0, hidden * sizeof(float));
  for (size_t d = 0; d < kDigits; ++d) {
    const float error = share * (net->output[d] - (d == image->digit ? 1.0F : 0.0F));
    for (size_t h = 0; h < hidden; ++h) {
      net->gradient[weights + d * hidden + h] += error * net->activation[h];
      net->hidden_error[h] += error * net->parameters[weights + d * hidden + h];
    }
    net->gradient[weights + kDigits * hidden + d] += error;
  }
  for (size_t h = 0; h < hidden; ++h) {
    const float error = net->hidden_error[h] * (1.0F - net->activation[h] * net->activation[h]);
    for (size_t p = 0; p < kPixels; ++p) net->gradient[h * kPixels + p] += error * image->pixels[p];
    net->gradient[hidden * kPixels + h] += error;
  }
  return -logf(fmaxf(net->output[image->digit], 1e-30F));
}

static double accuracy_of(network_t* net, const data_t* data) {
  size_t right = 0;
  for (size_t i = 0; i < data->test_count; ++i) {
    size_t best = 0;
    predict(net, &data->test[i]);
    for (size_t d = 1; d < kDigits; ++d)
      if (net->output[d] > net->output[best]) best = d;
    right += best == data->test[i].digit ? 1 : 0;
  }
  return (double)right / (double)data->test_count;
}

static int parse_image(const char* line, image_t* image) {
  for (size_t i = 0; i <= kPixels; ++i) {
    char* end;
    const long number = strtol(line, &end, 10);
    if (end == line || number < 0 || number > (i < kPixels ? 16 : 9)) return 0;
    if (*end != (i < kPixels ? ',' : '\n') && !(i == kPixels && *end == '\0')) return 0;
    if (i < kPixels)
      image->pixels[i] = (float)number / 16.0F;
    else
      image->digit = (size_t)number;
    line = end + 1;
  }
  return 1;
}

static int read_images(FILE* file, const char* path, data_t* data) {
  char line[1024];
  for (size_t number = 0; number < kMostImages && fgets(line, sizeof line, file) != NULL; ++number) {
    const int testing = number % kTestEvery == kTestEvery - 1;
    image_t* image = testing ? &data->test[data->test_count++] : &data->train[data->train_count++];
    if (!parse_image(line, image)) {
      fprintf(stderr, "train_digits_c: %s:%zu: wanted 64 numbers from 0 to 16 and a digit, commas between\n",
              path, number + 1);
      return 0;
    }
  }
  if (data->test_count > 0) return 1;
  fprintf(stderr, "train_digits_c: '%s' holds fewer than %d images\n", path, kTestEvery);
  return 0;
}

static int load(const char* path, data_t* data) {
  FILE* file = fopen(path, "r");
  int good = 0;
  if (file == NULL) {
    fprintf(stderr,
            "train_digits_c: can not read the images in '%s'; run from the top of Rondel's source tree, or "
            "give the "
            "path of digits.csv with --data\n",
            path);
    return 0;
  }
  data->train = malloc(kMostImages * sizeof(image_t));
  data->test = malloc((kMostImages / kTestEvery + 1) * sizeof(image_t));
  if (data->train != NULL && data->test != NULL)
    good = read_images(file, path, data);
  else
    fprintf(stderr, "train_digits_c: no memory for the images\n");
  fclose(file);
  return good;
}

static void show_progress(size_t done, size_t all, int32_t rank) {
  char bar[41] = {0};
  if (rank != 0 || !isatty(STDERR_FILENO)) return;
  memset(bar, '#', 40 * done / all);
  fprintf(stderr, "\r[%-40s] %3zu %%%s", bar, 100 * done / all, done == all ? "\r\033[K" : "");
}

/* One step on `count` images of `order`: this rank's part, the sum over ranks, the update. */
static int step(network_t* net, const data_t* data, const size_t* order, size_t count, rondel_comm_t comm,
                progress_t* progress) {
  const size_t parameters = net->parameter_count;
  const size_t size = (size_t)rondel_size(comm), rank = (size_t)rondel_rank(comm);
  /* Shares are of the whole batch, so that the sum over ranks is its mean even where parts differ in size. */
  const float share = 1.0F / (float)count;
  struct timespec begin, end;
  memset(net->gradient, 0, (parameters + 1) * sizeof(float));
  for (size_t i = count * rank / size; i < count * (rank + 1) / size; ++i)
    net->gradient[parameters] += share * learn(net, &data->train[order[i]], share);

  clock_gettime(CLOCK_MONOTONIC, &begin);
  if (!went_well(
          rondel_allreduce(comm, net->gradient, net->gradient, parameters + 1, RONDEL_FLOAT32, RONDEL_SUM),
          comm, "sum of the gradients"))
    return 0;
  clock_gettime(CLOCK_MONOTONIC, &end);
  progress->seconds += (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;

  progress->steps += 1;
  progress->loss += (double)net->gradient[parameters] * (double)count / (double)data->train_count;
  for (size_t i = 0; i < parameters; ++i) {
    net->velocity[i] = kMomentum * net->velocity[i] - kLearningRate * net->gradient[i];
    net->parameters[i] += net->velocity[i];
  }
  return 1;
}

static int train_epoch(network_t* net, const data_t* data, const settings_t* settings, size_t* order,
                       size_t epoch, uint64_t* random, rondel_comm_t comm, progress_t* progress) {
  const size_t images = data->train_count;
  /* Fisher and Yates; every rank draws the same numbers and so the same order. */
  for (size_t i = images - 1; i > 0; --i) {
    const size_t j = (size_t)(next_random(random) % (i + 1)), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  progress->loss = 0;
  for (size_t begin = 0; begin < images; begin += settings->batch) {
    const size_t count = settings->batch < images - begin ? settings->batch : images - begin;
    if (!step(net, data, order + begin, count, comm, progress)) return 0;
    show_progress((epoch - 1) * images + begin + count, settings->epochs * images, rondel_rank(comm));
  }
  return 1;
}

/* Trains, prints a line per epoch on rank 0, and leaves the last test accuracy (1 on the other ranks). */
static int train(network_t* net, const data_t* data, const settings_t* settings, uint64_t* random,
                 rondel_comm_t comm, double* accuracy) {
  progress_t progress = {0, 0, 1e-9};
  uint64_t sent = 0, received = 0;
  size_t* order = malloc(data->train_count * sizeof(size_t));
  int good = order != NULL;
  for (size_t i = 0; good && i < data->train_count; ++i) order[i] = i;
  *accuracy = 1;
  for (size_t epoch = 1; good && epoch <= settings->epochs; ++epoch) {
    good = train_epoch(net, data, settings, order, epoch, random, comm, &progress);
    if (!good || rondel_rank(comm) != 0) continue;
    *accuracy = accuracy_of(net, data);
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
    printf("epoch %3zu  loss %.4f  test accuracy %.2f %%\n", epoch, progress.loss, *accuracy * 100);
    fflush(stdout);
  }
  free(order);
  good = good && went_well(rondel_byte_counts(comm, &sent, &received), comm, "byte counts");
  if (good && rondel_rank(comm) == 0)
    printf(
        "gradients: %zu all-reduces of %zu bytes; rank 0 sent %.2f MB and received %.2f MB in %.3f s, %.1f "
        "MB/s\n",
        progress.steps, (net->parameter_count + 1) * sizeof(float), (double)sent / 1e6,
        (double)received / 1e6, progress.seconds, (double)(sent + received) / 1e6 / progress.seconds);
  return good;
}

/* Prints a 64-bit FNV-1a of each rank's parameters on rank 0; 0 when they are not equal there. */
static int compare_ranks(const network_t* net, rondel_comm_t comm) {
  const unsigned char* bytes = (const unsigned char*)net->parameters;
  const size_t size = (size_t)rondel_size(comm);
  uint64_t mine = UINT64_C(0xcbf29ce484222325);
  uint64_t* all = malloc(size * sizeof *all);
  int equal = all != NULL;
  for (size_t i = 0; i < net->parameter_count * sizeof(float); ++i)
    mine = (mine ^ bytes[i]) * UINT64_C(0x100000001b3);
  equal = equal && went_well(rondel_gather(comm, &mine, all, 1, RONDEL_INT64, 0), comm, "checksums");
  for (size_t rank = 0; equal && rondel_rank(comm) == 0 && rank < size; ++rank) {
    printf("rank %zu parameters %016" PRIx64 "\n", rank, all[rank]);
    if (all[rank] == mine) continue;
    fprintf(stderr, "train_digits_c: the parameters of rank %zu differ from those of rank 0\n", rank);
    equal = 0;
  }
  free(all);
  return equal;
}

static int save(const network_t* net, const char* path) {
  FILE* file = fopen(path, "wb");
  const size_t written =
      file == NULL ? 0 : fwrite(net->parameters, sizeof(float), net->parameter_count, file);
  if (file != NULL && fclose(file) == 0 && written == net->parameter_count) return 1;
  fprintf(stderr, "train_digits_c: can not write the parameters to '%s'\n", path);
  return 0;
}

static int work(const settings_t* settings, const data_t* data, rondel_comm_t comm) {
  network_t net;
  uint64_t random = settings->seed;
  double accuracy = 0;
  int good = make_network(&net, settings->hidden, &random) &&
             train(&net, data, settings, &random, comm, &accuracy) && compare_ranks(&net, comm);
  if (good && settings->save != NULL && rondel_rank(comm) == 0) good = save(&net, settings->save);
  if (good && accuracy < kWantedAccuracy) {
    fprintf(stderr,
            "train_digits_c: test accuracy %.2f %% is below the wanted %.0f %%; train for more epochs\n",
            accuracy * 100, kWantedAccuracy * 100);
    good = 0;
  }
  free_network(&net);
  return good;
}

static int set_option(settings_t* settings, const char* name, const char* value) {
  char* end;
  const unsigned long long number = strtoull(value, &end, 10);
  const int counts = *value >= '0' && *value <= '9' && *end == '\0' && number <= 1000000000;
  if (strcmp(name, "--data") == 0) return settings->data = value, 1;
  if (strcmp(name, "--save") == 0) return settings->save = value, 1;
  if (strcmp(name, "--seed") == 0 && counts) return settings->seed = number, 1;
  if (!counts || number == 0) return 0;
  if (strcmp(name, "--epochs") == 0) return settings->epochs = (size_t)number, 1;
  if (strcmp(name, "--batch") == 0) return settings->batch = (size_t)number, 1;
  if (strcmp(name, "--hidden") == 0) return settings->hidden = (size_t)number, 1;
  return 0;
}

static const char kUsage[] =
    "usage: train_digits_c [--epochs N] [--batch N] [--seed N] [--hidden N] [--data FILE] [--save FILE]\n"
    "Trains a small network on handwritten digits, on as many ranks as rondelrun starts.\n"
    "  --epochs N   passes over the training images (20)\n"
    "  --batch N    images per step, over all ranks (64)\n"
    "  --seed N     of the first parameters and the order of the images (1)\n"
    "  --hidden N   size of the hidden layer (64)\n"
    "  --data FILE  the images (docs/examples/data/digits.csv)\n"
    "  --save FILE  where rank 0 writes the final parameters, as float32";

int main(int argc, char** argv) {
  settings_t settings = {20, 64, 64, 1, "docs/examples/data/digits.csv", NULL};
  data_t data = {NULL, NULL, 0, 0};
  rondel_comm_t comm = NULL;
  int good;
  if (argc == 2 && strcmp(argv[1], "--help") == 0) return puts(kUsage) < 0;
  for (int i = 1; i < argc; i += 2)
    if (i + 1 == argc || !set_option(&settings, argv[i], argv[i + 1])) {
      fprintf(stderr, "train_digits_c: can not use '%s %s'; see --help\n", argv[i],
              i + 1 < argc ? argv[i + 1] : "");
      return 2;
    }
  good = load(settings.data, &data) && went_well(rondel_init(NULL, &comm), NULL, "start");
  if (comm != NULL) {
    good = work(&settings, &data, comm) && good;
    good = went_well(rondel_finalize(comm), NULL, "end") && good;
  }
  free(data.train);
  free(data.test);
  return good ? 0 : 1;
}
