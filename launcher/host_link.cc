// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <utility>

#include "launcher/visible_text.h"

namespace rondel {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kExplanation{1'000};  // that ssh has to end after its stream
constexpr milliseconds kPause{20};
constexpr milliseconds kFirstAgain{250}, kLongestAgain{4'000};  // between logins to a host that is not up yet
constexpr milliseconds kLastChance{200};  // for words that came while this process did not run
constexpr milliseconds kStoodStillLately{5'000};
constexpr std::size_t kErrorBytes = 4096;
constexpr std::uint32_t kPipeBytes = 256 * 1024;

struct Pipe {
  UniqueFd reader, writer;
};

Result<Pipe> open_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_failure(Code::out_of_resources, "pipe", errno);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

HostLink::~HostLink() {
  // What is done leaves by itself; it is not to be killed on its way out.
  const Deadline deadline = Deadline::in(kExplanation);
  close();
  while (stage_ == Stage::done && process_ && !process_->ending() && !deadline.passed()) {
    const timespec pause{.tv_sec = 0, .tv_nsec = 200'000};
    ::nanosleep(&pause, nullptr);
  }
}

std::vector<Rank> HostLink::ranks() const {
  std::vector<Rank> ranks;
  for (const RankPlace& place : setup_.ranks) ranks.push_back(place.rank);
  return ranks;
}

void HostLink::open(UniqueFd in, UniqueFd out) {
  stage_ = Stage::connecting;
  heard_at_ = Time::max();
  channel_.emplace(loop_, std::move(in), std::move(out), agent::kAgentMagic);
  const Status opened = channel_->open([this](std::span<const std::byte> body) { return take(body); },
                                       [this](const Status& why) { channel_ended(why); });
  if (!opened.ok()) lose(opened.text());
}

void HostLink::start_local(LocalAgent agent) {
  process_.emplace(Process::adopt(agent.pid));
  expect_words();
  open(std::move(agent.from_agent), std::move(agent.to_agent));
}

void HostLink::expect_words() {
  overdue_ = false;
  words_due_ = setup_.patience.count() > 0 ? Deadline::Clock::now() + setup_.patience : Time::max();
}

void HostLink::start_ssh(ProcessRequest request) {
  stage_ = Stage::connecting;
  expect_words();
  if (!try_until_) try_until_ = Deadline::Clock::now() + setup_.ssh.wait;
  auto in = open_pipe(), out = open_pipe(), err = open_pipe();
  for (const auto* pipe : {&in, &out, &err})
    if (!pipe->ok()) return lose(pipe->status().text());
  // Fewer turns between ssh and us, when the system grants it. A user's pipes together are limited, too.
  ::fcntl(out->writer.get(), F_SETPIPE_SZ, static_cast<int>(std::min(setup_.window, kPipeBytes)));
  request.standard_input = in->reader.get();
  request.standard_output = out->writer.get();
  request.standard_error = err->writer.get();
  auto process = Process::spawn(request);
  if (!process.ok()) return lose(process.status().text());
  process_.emplace(*std::move(process));
  errors_ = std::move(err->reader);
  ::fcntl(errors_.get(), F_SETFL, O_NONBLOCK);
  const Status watched = loop_.watch(errors_.get(), EPOLLIN, [this] { read_errors(); });
  if (!watched.ok()) return lose(watched.text());
  open(std::move(out->reader), std::move(in->writer));
}

void HostLink::send(const agent::FromLauncher& message) {
  if (channel_ && !over()) channel_->send(encode(message));
}

void HostLink::give(const agent::FromLauncher& order) {
  stage_ = Stage::ordered;
  if (!setup_.local && setup_.silence.count() > 0) looked_at_ = heard_at_ = Deadline::Clock::now();
  if (setup_.local) expect_words();
  send(order);
}

Status HostLink::take(std::span<const std::byte> body) {
  auto message = agent::decode_from_agent(body);
  if (!message.ok()) return std::move(message).status();
  if (const auto* hello = std::get_if<agent::Hello>(&*message)) {
    RONDEL_TRY(greet(*hello));
  } else if (stage_ != Stage::ordered) {
    return Status(Code::refused, "its agent speaks out of turn");
  }
  if (heard_at_ != Time::max()) heard_at_ = Deadline::Clock::now();
  if (stage_ == Stage::ordered) words_due_ = Time::max();
  RONDEL_TRY(check_owner(*message));
  if (const auto* output = std::get_if<agent::Output>(&*message)) RONDEL_TRY(count(*output));
  if (std::holds_alternative<agent::Done>(*message)) {
    stage_ = Stage::done;
    close();
  }
  listener_.heard(*this, *message);
  return {};
}

/// An agent speaks for the ranks of its host, whatever has become of it.
Status HostLink::check_owner(const agent::FromAgent& message) const {
  const auto check = [this](Rank rank) {
    const bool own = std::any_of(setup_.ranks.begin(), setup_.ranks.end(),
                                 [rank](const RankPlace& place) { return place.rank == rank; });
    return own ? Status()
               : Status(Code::refused, fmt::format("its agent speaks of rank {}, which is not there", rank));
  };
  if (const auto* started = std::get_if<agent::Started>(&message)) return check(started->rank);
  if (const auto* output = std::get_if<agent::Output>(&message)) return check(output->rank);
  if (const auto* end = std::get_if<agent::OutputEnd>(&message)) return check(end->rank);
  if (const auto* ended = std::get_if<agent::Ended>(&message))
    for (const RankEnding& one : ended->ranks) RONDEL_TRY(check(one.rank));
  return {};
}

Status HostLink::count(const agent::Output& output) {
  std::uint32_t& used = used_[static_cast<std::size_t>(output.stream)];
  if (output.bytes.size() > setup_.window - used)
    return Status(Code::refused, "its agent sends more output than it has room for");
  used += static_cast<std::uint32_t>(output.bytes.size());
  return {};
}

Status HostLink::greet(const agent::Hello& hello) {
  if (stage_ != Stage::connecting) return Status(Code::refused, "its agent greets twice");
  if (hello.protocol != agent::kProtocol || hello.version != setup_.version)
    return Status(
        Code::refused,
        fmt::format("{} there is version {} (protocol {}), this is version {} (protocol {})",
                    setup_.ssh.remote_path, hello.version, hello.protocol, setup_.version, agent::kProtocol),
        "install the same one, or give its place with --remote-path");
  hello_ = hello;
  words_due_ = Time::max();
  error_text_.clear();  // banners and warnings of the login explain no later end
  stage_ = Stage::greeted;
  return {};
}

void HostLink::return_room(agent::Stream stream) {
  std::uint32_t& used = used_[static_cast<std::size_t>(stream)];
  if (stage_ != Stage::ordered || used < setup_.window / 4) return;
  send(agent::Room{stream, std::exchange(used, 0)});
}

void HostLink::read_errors() {
  std::array<char, 4096> piece;
  const ssize_t got = ::read(errors_.get(), piece.data(), piece.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    loop_.forget(errors_.get());
    errors_.reset();
    return;
  }
  const std::size_t before = error_text_.size();
  error_text_.append(piece.data(), static_cast<std::size_t>(got));
  for (std::size_t at = before, end = error_text_.find('\n', at); end != std::string::npos;
       at = end + 1, end = error_text_.find('\n', at)) {
    const std::size_t previous = end == 0 ? std::string::npos : error_text_.rfind('\n', end - 1);
    const std::size_t start = previous == std::string::npos ? 0 : previous + 1;
    std::string line = error_text_.substr(start, end - start);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) listener_.ssh_said(*this, line);
  }
  if (error_text_.size() > kErrorBytes) error_text_.erase(0, error_text_.size() - kErrorBytes);
}

void HostLink::channel_ended(const Status& why) {
  if (over()) return;
  if (!why.ok()) return lose(with_hint(why.failure().cause, why.failure().hint));
  explain_by_ = Deadline::Clock::now() + kExplanation;
}

void HostLink::look(Time now) {
  if (over()) return;
  // So long between two looks: this process was stopped, and what has come meanwhile is not read yet.
  const Time looked_at = std::exchange(looked_at_, now);
  if (heard_at_ != Time::max() && now - looked_at >= setup_.silence / 2) {
    heard_at_ = stood_still_until_ = now;
    stood_still_ = now - looked_at;
  }
  if (explain_by_) {
    const auto ending = process_ ? process_->ending() : std::nullopt;
    if (!(ending && !errors_) && now < *explain_by_) return;
    const bool again = !setup_.local && stage_ == Stage::connecting && now < *try_until_;
    return again && may_pass(ssh_ending(ending)) ? try_again(now, why_it_ended(ending))
                                                 : lose(why_it_ended(ending));
  }
  if (now >= words_due_) {
    words_due_ = now + kLastChance;
    if (std::exchange(overdue_, true)) return lose(why_overdue());
  }
  if (heard_at_ != Time::max() && now >= heard_at_ + setup_.silence)
    lose(fmt::format("nothing was heard of it for {:g} s",
                     static_cast<double>(setup_.silence.count()) / 1000.0));
}

HostLink::Time HostLink::next_look() const {
  if (over()) return Time::max();
  if (explain_by_) return Deadline::Clock::now() + kPause;
  if (stage_ == Stage::unstarted && again_pause_.count() > 0) return again_at_;
  if (heard_at_ == Time::max()) return words_due_;
  return std::min(heard_at_ + setup_.silence, looked_at_ + setup_.silence / 4);
}

SshEnding HostLink::ssh_ending(const std::optional<Ending>& ending) const {
  return {.ending = ending.value_or(Ending{}),
          .greeted = stage_ != Stage::connecting,
          .errors = error_text_,
          .printed = channel_ ? channel_->skipped() : std::string()};
}

std::string HostLink::why_overdue() const {
  const double seconds = static_cast<double>(setup_.patience.count()) / 1000.0;
  if (setup_.local)
    return fmt::format(
        "its agent (process {}) did not {} within {:g} s (see whether it is stopped, or give it longer with "
        "--start-timeout)",
        process_->pid(), stage_ == Stage::ordered ? "take up its order" : "begin to speak", seconds);
  return fmt::format(
      "no agent began to speak within {:g} s (see whether a login there hangs, or give it longer with "
      "--start-timeout){}",
      seconds, error_text_.empty() ? "" : "; ssh wrote " + visible(error_text_, 200));
}

std::string HostLink::why_it_ended(const std::optional<Ending>& ending) const {
  if (!setup_.local) {
    const bool stood_still = Deadline::Clock::now() - kStoodStillLately < stood_still_until_;
    const std::string cause =
        !stood_still ? ""
                     : fmt::format(
                           "this launcher was stopped, or its host asleep, for {:.0f} s, which agents "
                           "take for its end: ",
                           std::chrono::duration<double>(stood_still_).count());
    return cause + explain_ssh(ssh_ending(ending), setup_.ssh);
  }
  if (ending && ending->signal != 0)
    return fmt::format("its agent (process {}) was killed by signal {}", process_->pid(), ending->signal);
  return fmt::format("its agent (process {}) went away", process_->pid());
}

void HostLink::try_again(Time now, const std::string& why) {
  if (again_pause_.count() == 0) listener_.delayed(*this, why);
  again_pause_ = std::clamp(2 * again_pause_, kFirstAgain, kLongestAgain);
  again_at_ = now + again_pause_;
  close();
  process_.reset();
  explain_by_.reset();
  error_text_.clear();
  words_due_ = Time::max();
  stage_ = Stage::unstarted;
}

void HostLink::lose(const std::string& why) {
  if (over()) return;
  const Stage before = std::exchange(stage_, Stage::lost);
  close();
  process_.reset();
  listener_.lost(*this, before, why);
}

void HostLink::close() {
  if (channel_) channel_->close();
  if (errors_) loop_.forget(errors_.get());
  errors_.reset();
}

}  // namespace rondel
