// The compiled launcher: guard, outputs, and the call of one kernel, in one function that Python calls.
//
// Built once for each version of torch and Python (launcher.py); everything about a kernel arrives as data in `make`.
// A function that `make` returned takes the operator's tensors and gives its outputs. It gives NotImplemented where the
// call is not its business (another road: modes, subclasses, needed gradients, outside the envelope), and None where
// the call is due for a check against the original, which launcher.py's caller makes. `attach` puts the same kernel
// under an operator of torch, so that a compiled graph reaches it without Python.
// Not here: loading kernels, the original, memsets and library calls other than a matrix product of cuBLASLt (those
// plans run from Python).
//
// On a CUDA device it calls the driver's cuLaunchKernelEx and cuTensorMapEncodeTiled, and cublasLtMatmul, whose
// addresses `make` gets; the structures below are those of cuda.h, and no CUDA header or library is needed to build
// this. A device of -1 with steps calls whatever it is given in the driver's place, on the CPU: tests do.

#include <Python.h>

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace {

constexpr int kMostBuffers = 64;
constexpr int kMostAxes = 8;
constexpr size_t kMostMaps = 4, kMapBytes = 128;

struct LaunchAttribute {
  int32_t id;
  int32_t padding;
  union {
    char bytes[64];
    uint32_t dims[3];
    int32_t flag;
  } value;
};
struct LaunchConfig {
  uint32_t grid[3], block[3], shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  uint32_t attribute_count;
};
using LaunchKernel = int (*)(const LaunchConfig*, void* function, void** parameters, void** extra);
using CurrentStream = int (*)(int32_t device, void** stream);
using EncodeMap = int (*)(void* map, int type, uint32_t rank, void* base, const uint64_t* shape, const uint64_t* strides,
                          const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int promotion, int fill);
using LtMatmul = int (*)(void* handle, void* product, const void* alpha, const void* a, void* a_layout, const void* b,
                         void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                         const void* algorithm, void* workspace, size_t workspace_bytes, void* stream);
using SetContext = int (*)(void* context);
constexpr int kNoContext = 201;  // CUDA_ERROR_INVALID_CONTEXT: this thread has not asked the device for anything yet
using Entry = void (*)(void* const* buffers, const int64_t* axes);
using SetThreads = void (*)(int);

struct TensorForm {
  c10::ScalarType dtype;
  std::vector<int64_t> shape;  // below zero: the axis -1 - n
  std::vector<int64_t> strides;
  bool contiguous = true;
};
struct Map {
  int type = 0, swizzle = 0, promotion = 0, fill = 0;
  std::vector<uint64_t> shape, strides;
  std::vector<uint32_t> box, steps;
};
struct Parameter {
  int64_t buffer = -1;  // of a pointer, or of what a tensor map describes
  std::string bytes;    // of a number
  int64_t map = -1;
};
struct Library {  // row-major C = A B is the library's C^T = B^T A^T
  void *handle = nullptr, *product = nullptr, *layouts[3] = {};  // of B, A and C
  std::string algorithm;
  size_t workspace_bytes = 0;
  int64_t buffers[4] = {};  // B, A, C, workspace
};
struct Step {
  LtMatmul matmul = nullptr;
  Library library;
  std::vector<Map> maps;
  void* function = nullptr;
  LaunchConfig config{};
  std::vector<LaunchAttribute> attributes;
  std::vector<Parameter> parameters;
};
struct Kernel {
  std::vector<TensorForm> inputs, outputs;
  std::vector<int64_t> spaces;
  std::vector<std::pair<int64_t, int64_t>> axes;
  c10::Device device{c10::kCPU};
  int64_t alignment = 64;
  Entry entry = nullptr;
  SetThreads set_threads = nullptr;
  int threads = 1;
  bool serial = false;
  std::mutex one_at_a_time;
  LaunchKernel launch = nullptr;
  EncodeMap encode = nullptr;
  CurrentStream current_stream = nullptr;
  SetContext set_context = nullptr;
  void* context = nullptr;  // the device's primary one, which torch uses
  std::vector<Step> steps;
  int64_t first = 0, every = 0;
  std::atomic<int64_t> turn{0}, launched{0};
  std::atomic<bool> off{false};
  std::atomic<Kernel*> next{nullptr};  // the same operator's kernel on another device
  PyObject* next_owner = nullptr;
};

// ------------------------------------------------------------------------------------------------ the guard

bool quiet() {
  const auto local = c10::impl::tls_local_dispatch_key_set();
  return (local.included_ - c10::default_included_set).empty() && !at::impl::torch_function_mode_enabled() &&
         local.excluded_.has(c10::DispatchKey::AutocastCPU) && local.excluded_.has(c10::DispatchKey::AutocastCUDA);
}

bool fits(const Kernel& kernel, const TensorForm& form, const at::Tensor& t, int64_t* axes) {
  if (t.scalar_type() != form.dtype || t.device() != kernel.device || t.layout() != c10::kStrided) return false;
  if (t.is_neg() || t._is_zerotensor() || t.unsafeGetTensorImpl()->is_python_dispatch()) return false;
  const auto sizes = t.sizes();
  if (sizes.size() != form.shape.size()) return false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t wanted = form.shape[d];
    if (wanted >= 0) {
      if (sizes[d] != wanted) return false;
    } else {
      int64_t& axis = axes[-1 - wanted];
      if (axis < 0) axis = sizes[d];
      if (axis != sizes[d]) return false;
    }
  }
  if (form.contiguous ? !t.is_contiguous() : t.strides() != c10::IntArrayRef(form.strides)) return false;
  return reinterpret_cast<uintptr_t>(t.const_data_ptr()) % static_cast<uintptr_t>(kernel.alignment) == 0;
}

// ------------------------------------------------------------------------------------------------ the call

void call_entry(Kernel& kernel, void* const* buffers, const int64_t* axes) {
  static thread_local SetThreads team_of = nullptr;
  if (kernel.set_threads && team_of != kernel.set_threads) {  // each thread has a team size of its own
    kernel.set_threads(kernel.threads);
    team_of = kernel.set_threads;
  }
  if (kernel.serial) {
    std::lock_guard<std::mutex> alone(kernel.one_at_a_time);
    kernel.entry(buffers, axes);
  } else {
    kernel.entry(buffers, axes);
  }
}

const char* enqueue(Kernel& kernel, void** buffers) {
  void* stream = nullptr;
  if (kernel.current_stream(std::max<int>(0, kernel.device.index()), &stream)) return "the current stream cannot be had";
  const auto asked = [&kernel](auto&& ask) {  // again where this thread had no context and has got one
    const int answer = ask();
    return answer == kNoContext && !kernel.set_context(kernel.context) ? ask() : answer;
  };
  for (Step& step : kernel.steps) {
    if (step.matmul) {
      const Library& l = step.library;
      const float one = 1.f, zero = 0.f;
      if (step.matmul(l.handle, l.product, &one, buffers[l.buffers[0]], l.layouts[0], buffers[l.buffers[1]], l.layouts[1],
                      &zero, buffers[l.buffers[2]], l.layouts[2], buffers[l.buffers[2]], l.layouts[2],
                      l.algorithm.data(), buffers[l.buffers[3]], l.workspace_bytes, stream))
        return "the library refused a product";
      continue;
    }
    alignas(64) unsigned char maps[kMostMaps][kMapBytes];
    void* parameters[kMostBuffers];
    for (size_t i = 0; i < step.parameters.size(); ++i) {
      const Parameter& parameter = step.parameters[i];
      if (parameter.map >= 0) {
        const Map& m = step.maps[static_cast<size_t>(parameter.map)];
        parameters[i] = maps[parameter.map];
        if (asked([&] {
              return kernel.encode(parameters[i], m.type, static_cast<uint32_t>(m.shape.size()), buffers[parameter.buffer],
                                   m.shape.data(), m.strides.data(), m.box.data(), m.steps.data(), 0, m.swizzle,
                                   m.promotion, m.fill);
            }))
          return "the driver refused a tensor map";
        continue;
      }
      parameters[i] = parameter.buffer >= 0 ? static_cast<void*>(&buffers[parameter.buffer])
                                            : const_cast<char*>(parameter.bytes.data());
    }
    LaunchConfig config = step.config;
    config.stream = stream;
    config.attributes = step.attributes.data();
    config.attribute_count = static_cast<uint32_t>(step.attributes.size());
    if (asked([&] { return kernel.launch(&config, step.function, parameters, nullptr); }))
      return "the driver refused a launch";
  }
  return nullptr;
}

PyObject* not_implemented() {
  Py_INCREF(Py_NotImplemented);
  return Py_NotImplemented;
}

Kernel* kernel_of(PyObject* capsule) { return static_cast<Kernel*>(PyCapsule_GetPointer(capsule, "kernelwright")); }

using Tensors = std::vector<at::Tensor>;
using Given = c10::SmallVector<const at::Tensor*, 8>;
enum class Outcome { missed, due, ran };

Tensors run(Kernel& kernel, const Given& given, const int64_t* axes) {
  void* buffers[kMostBuffers];
  size_t count = 0;
  for (const at::Tensor* t : given) buffers[count++] = const_cast<void*>(t->const_data_ptr());
  const auto options = at::TensorOptions().device(kernel.device);
  Tensors outputs, spaces;
  outputs.reserve(kernel.outputs.size());
  for (const TensorForm& form : kernel.outputs) {
    c10::SmallVector<int64_t, 8> shape;
    for (int64_t size : form.shape) shape.push_back(size >= 0 ? size : axes[-1 - size]);
    outputs.push_back(at::empty(shape, options.dtype(form.dtype)));
    buffers[count++] = outputs.back().data_ptr();
  }
  for (int64_t bytes : kernel.spaces) {
    spaces.push_back(at::empty({bytes}, options.dtype(c10::kByte)));
    buffers[count++] = spaces.back().data_ptr();
  }
  if (kernel.entry)
    call_entry(kernel, buffers, axes);
  else if (const char* fault = enqueue(kernel, buffers))
    throw std::runtime_error(fault);
  kernel.launched.fetch_add(1, std::memory_order_relaxed);
  return outputs;
}

Kernel* on_device_of(Kernel* kernel, const at::Tensor& tensor) {
  const c10::Device device = tensor.device();
  while (kernel && kernel->device != device) kernel = kernel->next.load(std::memory_order_acquire);
  return kernel;
}

struct Unlocked {  // Python's lock is given away while it lives, where there is one to give
  explicit Unlocked(bool held) : state(held ? PyEval_SaveThread() : nullptr) {}
  ~Unlocked() {
    if (state) PyEval_RestoreThread(state);
  }
  PyThreadState* state;
};

Outcome attempt(Kernel* first, const Given& given, bool grad, bool locked, Tensors& outputs) {
  Kernel* found = given.empty() ? nullptr : on_device_of(first, *given[0]);
  if (!found || given.size() != found->inputs.size()) return Outcome::missed;
  Kernel& kernel = *found;
  if (kernel.off.load(std::memory_order_relaxed) || !quiet()) return Outcome::missed;
  int64_t axes[kMostAxes];
  std::memset(axes, -1, sizeof axes);
  for (size_t i = 0; i < given.size(); ++i)
    if ((grad && given[i]->requires_grad()) || !fits(kernel, kernel.inputs[i], *given[i], axes)) return Outcome::missed;
  for (size_t a = 0; a < kernel.axes.size(); ++a)
    if (axes[a] < kernel.axes[a].first || axes[a] > kernel.axes[a].second) return Outcome::missed;
  const int64_t turn = kernel.turn.fetch_add(1, std::memory_order_relaxed);
  if (turn < kernel.first || (kernel.every > 0 && turn % kernel.every == 0)) return Outcome::due;
  const Unlocked unlocked(locked);
  std::optional<c10::DeviceGuard> there;
  if (kernel.device.is_cuda()) there.emplace(kernel.device);
  outputs = run(kernel, given, axes);
  return Outcome::ran;
}

PyObject* call(PyObject* self, PyObject* const* objects, Py_ssize_t count) {
  try {
    Given given;
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (!THPVariable_CheckExact(objects[i])) return not_implemented();
      given.push_back(&THPVariable_Unpack(objects[i]));
    }
    Tensors outputs;
    const Outcome outcome = attempt(kernel_of(self), given, c10::GradMode::is_enabled(), true, outputs);
    if (outcome == Outcome::missed) return not_implemented();
    if (outcome == Outcome::due) Py_RETURN_NONE;
    if (outputs.size() == 1) return THPVariable_Wrap(std::move(outputs[0]));
    PyObject* all = PyTuple_New(static_cast<Py_ssize_t>(outputs.size()));
    for (size_t i = 0; all && i < outputs.size(); ++i)
      PyTuple_SET_ITEM(all, static_cast<Py_ssize_t>(i), THPVariable_Wrap(std::move(outputs[i])));
    return all;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

// ------------------------------------------------------------------------------------------------ the operator

// What an operator of torch does under one dispatch key; lives as long as the process, as operators do.
class Road final : public c10::OperatorKernel {
 public:
  Road(PyObject* capsule, bool grad, PyObject* missed, PyObject* due)
      : kernel_(kernel_of(capsule)), grad_(grad), missed_(missed), due_(due) {
    for (PyObject* kept : {capsule, missed, due}) Py_INCREF(kept);
  }

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const size_t count = op.schema().arguments().size();
    Given given;
    for (size_t i = stack->size() - count; i < stack->size(); ++i) given.push_back(&(*stack)[i].toTensor());
    Tensors outputs;
    PyObject* other = nullptr;
    try {
      const Outcome outcome = attempt(kernel_, given, grad_ && c10::GradMode::is_enabled(), false, outputs);
      other = outcome == Outcome::missed ? missed_ : outcome == Outcome::due ? due_ : nullptr;
    } catch (const std::exception&) {
      other = missed_;  // it meets the same fault, and says so
    }
    if (other) outputs = in_python(other, given);
    torch::jit::drop(*stack, count);
    for (at::Tensor& output : outputs) stack->emplace_back(std::move(output));
  }

 private:
  static Tensors in_python(PyObject* function, const Given& given) {
    const pybind11::gil_scoped_acquire locked;
    const auto arguments = pybind11::reinterpret_steal<pybind11::object>(PyTuple_New(static_cast<Py_ssize_t>(given.size())));
    for (size_t i = 0; arguments && i < given.size(); ++i)
      PyTuple_SET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(i), THPVariable_Wrap(*given[i]));
    const auto made = pybind11::reinterpret_steal<pybind11::object>(
        arguments ? PyObject_Call(function, arguments.ptr(), nullptr) : nullptr);
    if (!made) {
      python_error error;
      error.persist();
      throw error;
    }
    Tensors outputs;
    if (!PyTuple_Check(made.ptr())) return {THPVariable_Unpack(made.ptr())};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(made.ptr()); ++i)
      outputs.push_back(THPVariable_Unpack(PyTuple_GET_ITEM(made.ptr(), i)));
    return outputs;
  }

  Kernel* kernel_;
  bool grad_;
  PyObject *missed_, *due_;
};

// Takes (namespace, operator, dispatch key, whether gradients may be needed there, what is called for a miss, and for a
// call that is due for a check).
PyObject* attach(PyObject* self, PyObject* arguments) {
  const char *space, *name, *key;
  PyObject *missed, *due;
  int grad;
  if (!PyArg_ParseTuple(arguments, "sssiOO", &space, &name, &key, &grad, &missed, &due)) return nullptr;
  try {
    auto* library = new torch::Library(torch::Library::IMPL, space, std::nullopt, __FILE__, __LINE__);  // for good
    library->impl(name, torch::dispatch(c10::parseDispatchKey(key), torch::CppFunction::makeFromBoxedFunctor(
                                            std::make_unique<Road>(self, grad != 0, missed, due))));
    Py_RETURN_NONE;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

PyObject* turn_off(PyObject* self, PyObject*) {
  kernel_of(self)->off.store(true);
  Py_RETURN_NONE;
}

// Takes the `launch` of the same operator's kernel on another device: calls with that device's tensors go there.
PyObject* join(PyObject* self, PyObject* other) {
  PyObject* owner = PyCFunction_Check(other) ? PyCFunction_GET_SELF(other) : nullptr;
  if (!owner || !PyCapsule_IsValid(owner, "kernelwright")) {
    PyErr_SetString(PyExc_TypeError, "only a launch can be joined");
    return nullptr;
  }
  Kernel* last = kernel_of(self);
  while (Kernel* next = last->next.load(std::memory_order_acquire)) last = next;
  Py_INCREF(owner);
  last->next_owner = owner;
  last->next.store(kernel_of(owner), std::memory_order_release);
  Py_RETURN_NONE;
}

PyObject* launched(PyObject* self, PyObject*) { return PyLong_FromLongLong(kernel_of(self)->launched.load()); }

// ------------------------------------------------------------------------------------------------ from Python's data

int64_t number(PyObject* owner, const char* name) {
  PyObject* item = PyDict_GetItemString(owner, name);
  TORCH_CHECK(item, "the launcher's data lack ", name);
  return static_cast<int64_t>(PyLong_AsLongLong(item));
}

void* address(PyObject* owner, const char* name) { return reinterpret_cast<void*>(number(owner, name)); }

std::vector<int64_t> numbers(PyObject* tuple) {
  TORCH_CHECK(tuple && PyTuple_Check(tuple), "the launcher's data need a tuple");
  std::vector<int64_t> found;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    found.push_back(static_cast<int64_t>(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i))));
  return found;
}

std::vector<TensorForm> forms(PyObject* tuple) {
  TORCH_CHECK(tuple && PyTuple_Check(tuple), "the launcher's data need tensors");
  std::vector<TensorForm> found;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);  // (dtype's number, shape, strides or None)
    TensorForm form;
    form.dtype = static_cast<c10::ScalarType>(PyLong_AsLong(PyTuple_GET_ITEM(item, 0)));
    form.shape = numbers(PyTuple_GET_ITEM(item, 1));
    form.contiguous = PyTuple_GET_ITEM(item, 2) == Py_None;
    if (!form.contiguous) form.strides = numbers(PyTuple_GET_ITEM(item, 2));
    found.push_back(std::move(form));
  }
  return found;
}

Map map_of(PyObject* numbers_of_it) {  // type, swizzle, promotion, fill; shape; strides; box; steps
  Map map;
  const auto kinds = numbers(PyTuple_GetItem(numbers_of_it, 0));
  TORCH_CHECK(kinds.size() == 4, "a tensor map has four kinds");
  map.type = static_cast<int>(kinds[0]), map.swizzle = static_cast<int>(kinds[1]);
  map.promotion = static_cast<int>(kinds[2]), map.fill = static_cast<int>(kinds[3]);
  const auto fill = [&](auto& to, Py_ssize_t which) {
    for (int64_t n : numbers(PyTuple_GetItem(numbers_of_it, which))) to.push_back(static_cast<typename std::decay_t<decltype(to)>::value_type>(n));
  };
  fill(map.shape, 1), fill(map.strides, 2), fill(map.box, 3), fill(map.steps, 4);
  return map;
}

Step library_step(PyObject* item) {
  Step step;
  step.matmul = reinterpret_cast<LtMatmul>(address(item, "matmul"));
  Library& l = step.library;
  l.handle = address(item, "handle"), l.product = address(item, "product");
  const auto layouts = numbers(PyDict_GetItemString(item, "layouts")), buffers = numbers(PyDict_GetItemString(item, "buffers"));
  TORCH_CHECK(layouts.size() == 3 && buffers.size() == 4, "a library's product has three layouts and four buffers");
  for (int i = 0; i < 3; ++i) l.layouts[i] = reinterpret_cast<void*>(layouts[static_cast<size_t>(i)]);
  std::copy(buffers.begin(), buffers.end(), l.buffers);
  PyObject* algorithm = PyDict_GetItemString(item, "algorithm");
  l.algorithm.assign(PyBytes_AsString(algorithm), static_cast<size_t>(PyBytes_Size(algorithm)));
  l.workspace_bytes = static_cast<size_t>(number(item, "workspace_bytes"));
  return step;
}

Step step_of(PyObject* item) {
  if (PyDict_GetItemString(item, "matmul")) return library_step(item);
  Step step;
  step.function = address(item, "function");
  const auto geometry = numbers(PyDict_GetItemString(item, "geometry"));  // grid, block, cluster, shared, two flags
  TORCH_CHECK(geometry.size() == 12, "a launch has twelve numbers");
  for (int i = 0; i < 3; ++i) {
    step.config.grid[i] = static_cast<uint32_t>(geometry[i]);
    step.config.block[i] = static_cast<uint32_t>(geometry[3 + i]);
  }
  step.config.shared_bytes = static_cast<uint32_t>(geometry[9]);
  const auto add = [&](int32_t id) -> LaunchAttribute& {
    LaunchAttribute made;
    std::memset(&made, 0, sizeof made);
    made.id = id;
    step.attributes.push_back(made);
    return step.attributes.back();
  };
  if (geometry[6] * geometry[7] * geometry[8] > 1) {
    LaunchAttribute& cluster = add(4);  // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    for (int i = 0; i < 3; ++i) cluster.value.dims[i] = static_cast<uint32_t>(geometry[6 + i]);
  }
  if (geometry[10]) add(2).value.flag = 1;  // CU_LAUNCH_ATTRIBUTE_COOPERATIVE
  if (geometry[11]) add(6).value.flag = 1;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
  PyObject* parameters = PyDict_GetItemString(item, "parameters");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parameters); ++i) {
    PyObject* given = PyTuple_GET_ITEM(parameters, i);  // a buffer's number, bytes, or (buffer, a map's numbers)
    Parameter parameter;
    if (PyTuple_Check(given)) {
      parameter.buffer = static_cast<int64_t>(PyLong_AsLongLong(PyTuple_GetItem(given, 0)));
      parameter.map = static_cast<int64_t>(step.maps.size());
      step.maps.push_back(map_of(PyTuple_GetItem(given, 1)));
    } else if (PyBytes_Check(given))
      parameter.bytes.assign(PyBytes_AS_STRING(given), static_cast<size_t>(PyBytes_GET_SIZE(given)));
    else
      parameter.buffer = static_cast<int64_t>(PyLong_AsLongLong(given));
    step.parameters.push_back(std::move(parameter));
  }
  TORCH_CHECK(step.parameters.size() <= kMostBuffers && step.maps.size() <= kMostMaps, "a kernel with too many parameters");
  return step;
}

PyMethodDef kCall = {"launch", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call)), METH_FASTCALL, nullptr};
PyMethodDef kOff = {"turn_off", turn_off, METH_NOARGS, nullptr};
PyMethodDef kJoin = {"join", join, METH_O, nullptr};
PyMethodDef kLaunched = {"launched", launched, METH_NOARGS, nullptr};
PyMethodDef kAttach = {"attach", attach, METH_VARARGS, nullptr};

void release(PyObject* capsule) {
  Kernel* kernel = kernel_of(capsule);
  PyObject* next = kernel->next_owner;
  delete kernel;
  Py_XDECREF(next);
}

PyObject* make(PyObject*, PyObject* data) {
  try {
    auto kernel = std::make_unique<Kernel>();
    kernel->inputs = forms(PyDict_GetItemString(data, "inputs"));
    kernel->outputs = forms(PyDict_GetItemString(data, "outputs"));
    kernel->spaces = numbers(PyDict_GetItemString(data, "spaces"));
    const auto limits = numbers(PyDict_GetItemString(data, "axes"));  // low, high of each
    for (size_t i = 0; i + 1 < limits.size(); i += 2) kernel->axes.emplace_back(limits[i], limits[i + 1]);
    const size_t buffers = kernel->inputs.size() + kernel->outputs.size() + kernel->spaces.size();
    TORCH_CHECK(buffers <= kMostBuffers && kernel->axes.size() <= kMostAxes, "too many tensors or axes");
    kernel->alignment = number(data, "alignment");
    kernel->first = number(data, "first");
    kernel->every = number(data, "every");
    const int64_t ordinal = number(data, "device");
    if (ordinal >= 0) kernel->device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(ordinal));
    if (ordinal >= 0 || PyDict_GetItemString(data, "steps")) {
      if (PyDict_GetItemString(data, "encode")) kernel->encode = reinterpret_cast<EncodeMap>(address(data, "encode"));
      kernel->launch = reinterpret_cast<LaunchKernel>(address(data, "launch"));
      kernel->current_stream = reinterpret_cast<CurrentStream>(address(data, "current_stream"));
      kernel->set_context = reinterpret_cast<SetContext>(address(data, "set_context"));
      kernel->context = address(data, "context");
      PyObject* steps = PyDict_GetItemString(data, "steps");
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); ++i)
        kernel->steps.push_back(step_of(PyTuple_GET_ITEM(steps, i)));
    } else {
      kernel->entry = reinterpret_cast<Entry>(address(data, "entry"));
      kernel->set_threads = reinterpret_cast<SetThreads>(address(data, "set_threads"));
      kernel->threads = static_cast<int>(number(data, "threads"));
      kernel->serial = number(data, "serial") != 0;
    }
    if (PyErr_Occurred()) return nullptr;
    PyObject* capsule = PyCapsule_New(kernel.release(), "kernelwright", release);
    if (!capsule) return nullptr;
    PyObject* made = Py_BuildValue("(NNNNN)", PyCFunction_New(&kCall, capsule), PyCFunction_New(&kOff, capsule),
                                   PyCFunction_New(&kLaunched, capsule), PyCFunction_New(&kJoin, capsule),
                                   PyCFunction_New(&kAttach, capsule));
    Py_DECREF(capsule);
    return made;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

PyMethodDef kMethods[] = {{"make", make, METH_O, "Returns (launch, turn_off, launched, join, attach) of one kernel."},
                          {nullptr, nullptr, 0, nullptr}};
PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "kernelwright_launcher", nullptr, -1, kMethods};

}  // namespace

PyMODINIT_FUNC PyInit_kernelwright_launcher() { return PyModule_Create(&kModule); }
