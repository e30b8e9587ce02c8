// SPDX-License-Identifier: Apache-2.0
// A library to preload: sendmsg and recvmsg on stream sockets move at most SHORT_IO_BYTES bytes, and every
// third call is interrupted, as a loaded kernel may do at any time. Code that takes whole transfers for
// granted breaks under it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { kMaxPieces = 64 };

static int interrupted(void) {
  static atomic_uint calls;
  if (atomic_fetch_add(&calls, 1) % 3 != 2) return 0;
  errno = EINTR;
  return 1;
}

static struct msghdr shortened(const struct msghdr* message, struct iovec* pieces) {
  struct msghdr copy = *message;
  size_t room = SHORT_IO_BYTES;
  size_t used = 0;
  for (; used < message->msg_iovlen && used < kMaxPieces && room > 0; ++used) {
    pieces[used] = message->msg_iov[used];
    if (pieces[used].iov_len > room) pieces[used].iov_len = room;
    room -= pieces[used].iov_len;
  }
  copy.msg_iov = pieces;
  copy.msg_iovlen = used;
  return copy;
}

ssize_t sendmsg(int socket, const struct msghdr* message, int flags) {
  static ssize_t (*real)(int, const struct msghdr*, int);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "sendmsg");
  if (interrupted()) return -1;
  struct iovec pieces[kMaxPieces];
  const struct msghdr copy = shortened(message, pieces);
  return real(socket, &copy, flags);
}

ssize_t recvmsg(int socket, struct msghdr* message, int flags) {
  static ssize_t (*real)(int, struct msghdr*, int);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "recvmsg");
  if (interrupted()) return -1;
  struct iovec pieces[kMaxPieces];
  struct msghdr copy = shortened(message, pieces);
  return real(socket, &copy, flags);
}
