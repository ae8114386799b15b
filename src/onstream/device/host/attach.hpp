// Cross-memory attach: which processes this one may copy from and to, and the numbers that stand for them in remote
// process addresses (device/kernel/remote_process.hpp).
//
// Attachments are known per process, not per device. A number is used again when its last owner has let go, so an
// attachment must outlive the ops that use its addresses. The system asks for the process id alone; one that dies is
// noticed by the mesh long before its id could be another's.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "onstream/device.hpp"
#include "onstream/device/export.hpp"

namespace onstream::host {

// See Device. The first call allows the other processes of this user to attach, where the system asks for that (Yama).
ProcessRecord process_record();
std::shared_ptr<Attachment> attach(const ProcessRecord& record, pid_t pid);

// Why no process can attach to another on this machine; empty if it may work.
std::string no_attach_reason();

}  // namespace onstream::host
