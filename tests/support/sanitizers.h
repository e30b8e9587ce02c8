// SPDX-License-Identifier: Apache-2.0
// UNDER_ADDRESS_SANITIZER, UNDER_THREAD_SANITIZER: 1 where the test is built with one, of g++ or of clang.
// For what a sanitizer itself costs: memory, threads, page faults.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#define UNDER_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
#define UNDER_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__)
#define UNDER_THREAD_SANITIZER 1
#elif defined(__has_feature)
#define UNDER_THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#define UNDER_THREAD_SANITIZER 0
#endif
