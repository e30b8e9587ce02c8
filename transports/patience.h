// SPDX-License-Identifier: Apache-2.0
// Patience: how an endpoint's driver waits: it polls for a while after something was posted or moved, over as
// many calls as that takes, and sleeps then. How long is learnt (SpinBudget). Driver thread only.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/deadline.h"
#include "transports/spin_budget.h"

namespace rondel {

class Patience {
 public:
  using TimePoint = Deadline::Clock::time_point;

  /// `spin`: the longest that it polls. Where ranks outnumber cores somebody else can use the time.
  Patience(SpinBudget::Time spin, bool oversubscribed)
      : budget_(oversubscribed ? std::min(spin, SpinBudget::kLeast) : spin) {}

  void posted() { stirred_ = true; }
  /// Something moved or finished: says whether polling was worth it.
  void moved() {
    if (wait_ == Wait::slept) budget_.ended_sleeping(Deadline::Clock::now() - last_stir_);
    if (wait_ == Wait::polled) budget_.ended_polling();
    wait_ = Wait::none;
    stirred_ = true;
  }
  /// To be called with the time before polls_on() is asked.
  void look(TimePoint now) {
    if (!std::exchange(stirred_, false)) return;
    last_stir_ = now;
    wait_ = Wait::none;
  }
  /// Nothing has moved by `now`: whether to poll again, or to sleep. `busy`: works are posted.
  bool polls_on(TimePoint now, bool busy) {
    if (wait_ == Wait::none && now - last_stir_ >= budget_.least()) wait_ = Wait::polled;
    if (!busy) return false;
    if (now - last_stir_ < budget_.now()) return true;
    wait_ = Wait::slept;
    return false;
  }
  /// Who slept before and finds nothing now sleeps again at once.
  bool slept() const { return wait_ == Wait::slept; }

 private:
  enum class Wait { none, polled, slept };  // none: shorter than says anything

  SpinBudget budget_;
  bool stirred_ = false;
  TimePoint last_stir_{};
  Wait wait_ = Wait::none;
};

}  // namespace rondel
