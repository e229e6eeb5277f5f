// A stand-in for the Objective-C runtime: objects with reference counts, messages by selector, autorelease pools. A message is looked up
// and the call goes on with all registers and the stack as they were. What a caller does wrong is recorded under the name of a check,
// and the call does nothing; memory of objects is kept after their end, so that later messages are found.

#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace standin {

typedef const char* SEL; // unique: two are equal if their addresses are
typedef void (*IMP)();

struct Class;
struct Object {
    Class* isa;
    long owners;
};

// A method with the type encoding of the Objective-C runtime.
struct Method {
    const char* name;
    const char* types;
    IMP imp;
};

struct Class : Object {
    const char* name;
    std::vector<Method> methods;
    void (*dealloc)(Object*);
    long live;
};

static std::vector<std::string> violations;
static std::string sent; // the last message

static void complain(const char* check, const char* format, ...) {
    char text[1024];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    violations.push_back(std::string(check) + ": " + text);
}

static std::map<std::string, Class*>& classes() {
    static std::map<std::string, Class*> all;
    return all;
}

// Registers a class; "+NSString" is the class of NSString itself.
static Class* define(const char* name, void (*dealloc)(Object*), std::vector<Method> methods) {
    Class* c = new Class();
    c->owners = 1;
    c->name = name;
    c->methods = methods;
    c->dealloc = dealloc;
    classes()[name] = c;
    return c;
}

template <typename T> static T* make(Class* isa) {
    T* object = new T();
    object->isa = isa;
    object->owners = 1;
    isa->live++;
    return object;
}

template <typename F> static IMP imp(F* function) {
    return (IMP)function;
}

static std::set<std::string>& selectors() {
    static std::set<std::string> all;
    return all;
}

extern "C" SEL sel_registerName(const char* name) {
    return selectors().insert(name).first->c_str();
}

extern "C" Class* objc_getClass(const char* name) {
    auto of = classes().find(std::string("+") + name);
    if (of == classes().end()) {
        return nullptr;
    }
    static std::map<std::string, Class*> receivers;
    Class*& receiver = receivers[name];
    if (!receiver) {
        receiver = new Class();
        receiver->owners = 1;
        receiver->name = of->second->name;
        receiver->isa = of->second;
    }
    return receiver;
}

// The method of what is wrong: answers 0 in all registers of results.
static long nothing() {
    return 0;
}

extern "C" __attribute__((visibility("hidden"), used)) IMP standin_lookup(Object* self, SEL selector) {
    sent = selector;
    if (!self) {
        complain("message to nil", "%s", selector);
        return imp(nothing);
    }
    if (self->owners <= 0) {
        complain("message after release", "%s to a %s", selector, self->isa->name);
        return imp(nothing);
    }
    for (Method& method : self->isa->methods) {
        if (strcmp(method.name, selector) == 0) {
            return method.imp;
        }
    }
    complain("unknown selector", "%s does not respond to %s", self->isa->name, selector);
    return imp(nothing);
}

#ifdef __x86_64__
__asm__(R"(
.text
.globl objc_msgSend
.type objc_msgSend,@function
objc_msgSend:
    pushq %rbp
    movq %rsp, %rbp
    subq $192, %rsp
    movq %rdi, 0(%rsp)
    movq %rsi, 8(%rsp)
    movq %rdx, 16(%rsp)
    movq %rcx, 24(%rsp)
    movq %r8, 32(%rsp)
    movq %r9, 40(%rsp)
    movq %rax, 48(%rsp)
    movdqu %xmm0, 64(%rsp)
    movdqu %xmm1, 80(%rsp)
    movdqu %xmm2, 96(%rsp)
    movdqu %xmm3, 112(%rsp)
    movdqu %xmm4, 128(%rsp)
    movdqu %xmm5, 144(%rsp)
    movdqu %xmm6, 160(%rsp)
    movdqu %xmm7, 176(%rsp)
    call standin_lookup
    movq %rax, %r11
    movq 0(%rsp), %rdi
    movq 8(%rsp), %rsi
    movq 16(%rsp), %rdx
    movq 24(%rsp), %rcx
    movq 32(%rsp), %r8
    movq 40(%rsp), %r9
    movq 48(%rsp), %rax
    movdqu 64(%rsp), %xmm0
    movdqu 80(%rsp), %xmm1
    movdqu 96(%rsp), %xmm2
    movdqu 112(%rsp), %xmm3
    movdqu 128(%rsp), %xmm4
    movdqu 144(%rsp), %xmm5
    movdqu 160(%rsp), %xmm6
    movdqu 176(%rsp), %xmm7
    leave
    jmp *%r11
)");
#elif defined(__aarch64__)
__asm__(R"(
.text
.globl objc_msgSend
.type objc_msgSend,%function
objc_msgSend:
    stp x29, x30, [sp, #-224]!
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    stp q0, q1, [sp, #96]
    stp q2, q3, [sp, #128]
    stp q4, q5, [sp, #160]
    stp q6, q7, [sp, #192]
    bl standin_lookup
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldr x8, [sp, #80]
    ldp q0, q1, [sp, #96]
    ldp q2, q3, [sp, #128]
    ldp q4, q5, [sp, #160]
    ldp q6, q7, [sp, #192]
    ldp x29, x30, [sp], #224
    br x16
)");
#endif

extern "C" Object* objc_retain(Object* object) {
    if (object && object->owners <= 0) {
        complain("retain after release", "%s", object->isa->name);
    } else if (object) {
        object->owners++;
    }
    return object;
}

extern "C" void objc_release(Object* object) {
    if (!object) {
        complain("message to nil", "objc_release");
        return;
    }
    if (object->owners <= 0) {
        complain("released too often", "%s", object->isa->name);
        return;
    }
    if (--object->owners == 0) {
        object->isa->live--;
        if (object->isa->dealloc) {
            object->isa->dealloc(object);
        }
    }
}

struct Pools {
    std::vector<Object*> objects;
    std::vector<size_t> begins;
};
static thread_local Pools pools;

static Object* autoreleased(Object* object) {
    if (pools.begins.empty()) {
        complain("no autorelease pool", "%s, the result of %s", object->isa->name, sent.c_str());
    } else {
        pools.objects.push_back(object);
    }
    return object;
}

extern "C" void* objc_autoreleasePoolPush() {
    pools.begins.push_back(pools.objects.size());
    return (void*)pools.begins.size();
}

extern "C" void objc_autoreleasePoolPop(void* pool) {
    if (pools.begins.empty() || (size_t)pool != pools.begins.size()) {
        complain("pool order", "pool %zu of %zu is popped", (size_t)pool, pools.begins.size());
        return;
    }
    size_t begin = pools.begins.back();
    pools.begins.pop_back();
    while (pools.objects.size() > begin) {
        Object* last = pools.objects.back();
        pools.objects.pop_back();
        objc_release(last);
    }
}

// For tests: what was done wrong so far, one line each.
extern "C" const char* standin_violations() {
    static std::string text;
    text.clear();
    for (std::string& each : violations) {
        text += each + "\n";
    }
    violations.clear();
    return text.c_str();
}

// For tests: how many objects of which class there are.
extern "C" const char* standin_live() {
    static std::string text;
    text.clear();
    for (auto& each : classes()) {
        if (each.second->live > 0) {
            text += std::string(each.first) + " " + std::to_string(each.second->live) + "\n";
        }
    }
    if (!pools.begins.empty()) {
        text += "pools " + std::to_string(pools.begins.size()) + "\n";
    }
    return text.c_str();
}

// For tests: the type encoding of a method; empty if there is none.
extern "C" const char* standin_types(const char* class_, const char* selector) {
    auto of = classes().find(class_);
    if (of != classes().end()) {
        for (Method& method : of->second->methods) {
            if (strcmp(method.name, selector) == 0) {
                return method.types;
            }
        }
    }
    return "";
}

} // namespace standin
