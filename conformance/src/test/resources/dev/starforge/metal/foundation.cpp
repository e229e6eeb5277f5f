// A stand-in for what the backend uses of Foundation.

namespace standin {

typedef unsigned long NSUInteger;

struct String : Object {
    std::string text;
};

static void string_dealloc(Object* object) {
    ((String*)object)->text.clear();
}

static const char* string_utf8(String* string, SEL) {
    return string->text.c_str();
}

static Class* NSString = define("NSString", string_dealloc, {{"UTF8String", "r*@:", imp(string_utf8)}});

static Object* string(const std::string& text) {
    String* made = make<String>(NSString);
    made->text = text;
    return autoreleased(made);
}

static Object* string_with_utf8(Class*, SEL, const char* text) {
    return string(text);
}

static Class* NSString_class =
    define("+NSString", nullptr, {{"stringWithUTF8String:", "@@:r*", imp(string_with_utf8)}});

// What every class has.
static Class* NSObject_class = define("+NSObject", nullptr, {{"new", "@@:", nullptr}});

struct Error : Object {
    std::string text;
    long code;
};

static Object* error_text(Error* error, SEL) {
    return string(error->text);
}

static long error_code(Error* error, SEL) {
    return error->code;
}

static Class* NSError =
    define("NSError", nullptr, {{"localizedDescription", "@@:", imp(error_text)}, {"code", "q@:", imp(error_code)}});

static Error* error(long code, const std::string& text) {
    Error* made = make<Error>(NSError);
    made->code = code;
    made->text = text;
    return made;
}

// Answers nil, with an error.
static Object* fail(Object** to, long code, const std::string& text) {
    if (to) {
        *to = autoreleased(error(code, text));
    }
    return nullptr;
}

struct Array : Object {
    std::vector<Object*> objects;
};

static void array_dealloc(Object* object) {
    for (Object* each : ((Array*)object)->objects) {
        objc_release(each);
    }
    ((Array*)object)->objects.clear();
}

static NSUInteger array_count(Array* array, SEL) {
    return array->objects.size();
}

static Object* array_at(Array* array, SEL, NSUInteger index) {
    if (index >= array->objects.size()) {
        complain("array index", "%lu of %zu", index, array->objects.size());
        return nullptr;
    }
    return array->objects[index];
}

static Class* NSArray =
    define("NSArray", array_dealloc, {{"count", "Q@:", imp(array_count)}, {"objectAtIndex:", "@@:Q", imp(array_at)}});

// The machine, which tests change.
static std::map<std::string, long> machine = {
    {"devices", 1},
    {"family", 1007},
    {"macos", 14},
    {"memory", 8L << 30},
    {"working set", 5726623061},
    {"largest buffer", 4L << 30},
    {"threadgroup memory", 32768},
    {"threads", 1024},
    {"simd", 32},
    {"fails with", 0},
};

extern "C" void standin_set(const char* name, long value) {
    machine.at(name) = value;
}

static Object* process_version(Object*, SEL) {
    return string("Version " + std::to_string(machine["macos"]) + ".5 (Build 23F79)");
}

static unsigned long long process_memory(Object*, SEL) {
    return machine["memory"];
}

static Class* NSProcessInfo = define("NSProcessInfo", nullptr,
                                     {{"operatingSystemVersionString", "@@:", imp(process_version)},
                                      {"physicalMemory", "Q@:", imp(process_memory)}});

static Object* process_info(Class*, SEL) {
    static Object one = {NSProcessInfo, 1};
    return &one;
}

static Class* NSProcessInfo_class = define("+NSProcessInfo", nullptr, {{"processInfo", "@@:", imp(process_info)}});

} // namespace standin
