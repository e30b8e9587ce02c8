// SPDX-License-Identifier: Apache-2.0
#include "lib/status.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace rondel {

std::string_view name_of(Code code) {
  constexpr std::array<std::string_view, kCodeCount> kNames{
      "ok",        "invalid argument",   "unsupported",   "unavailable", "out of resources",
      "timed out", "peer lost",          "peer left",     "mismatch",    "refused",
      "aborted",   "input/output error", "internal error"};
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "unknown code";
}

Status::Status(Code code, std::string cause, std::string hint) {
  Failure failure;
  failure.cause = std::move(cause);
  failure.hint = std::move(hint);
  *this = Status(code, std::move(failure));
}

Status::Status(Code code, Failure failure) {
  if (code != Code::ok) body_ = std::make_unique<Body>(Body{code, std::move(failure)});
}

Status::Status(const Status& other) : body_(other.body_ ? std::make_unique<Body>(*other.body_) : nullptr) {}

Status& Status::operator=(const Status& other) {
  if (this != &other) body_ = other.body_ ? std::make_unique<Body>(*other.body_) : nullptr;
  return *this;
}

const Failure& Status::failure() const {
  static const Failure kNone{};
  return body_ ? body_->failure : kNone;
}

std::string Status::text() const {
  if (ok()) return "ok";
  const Failure& f = body_->failure;
  std::string text;
  if (f.rank != kNoRank) text += fmt::format("rank {}: ", f.rank);
  if (!f.operation.empty()) text += f.operation + ": ";
  text += f.cause.empty() ? std::string(name_of(body_->code)) : f.cause;
  if (!f.hint.empty()) text += "; " + f.hint;
  return text;
}

Status Status::with(std::string_view context) && {
  if (body_) body_->failure.cause = fmt::format("{}: {}", context, body_->failure.cause);
  return std::move(*this);
}

namespace {

std::string hint_for(int error_number) {
  rlimit limit{};
  if (error_number == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    return fmt::format("this process may have {} open files; raise the limit (ulimit -n)", limit.rlim_cur);
  if (error_number == ENFILE) return "the whole machine may have no more open files (sysctl fs.file-max)";
  return {};
}

}  // namespace

bool resources_ran_out(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS ||
         error_number == ENOMEM;
}

Status system_failure(Code code, std::string_view what, int error_number, std::string hint) {
  if (resources_ran_out(error_number)) code = Code::out_of_resources;
  if (hint.empty()) hint = hint_for(error_number);
  return Status(code, fmt::format("{}: {}", what, std::system_category().message(error_number)),
                std::move(hint));
}

}  // namespace rondel
