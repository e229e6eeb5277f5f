package dev.starforge.text.template;

import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Variables of a template, with nested scopes for loop iterations and macro calls. */
final class TemplateScope {
    private final @Nullable TemplateScope outer;
    private final Map<String, Object> values = new HashMap<>();
    private final RenderBudget budget;

    private TemplateScope(@Nullable TemplateScope outer, RenderBudget budget) {
        this.outer = outer;
        this.budget = budget;
    }

    static TemplateScope of(Map<String, Object> values) {
        TemplateScope scope = new TemplateScope(null, new RenderBudget());
        scope.values.putAll(values);
        return scope;
    }

    TemplateScope inner() {
        return new TemplateScope(this, budget);
    }

    RenderBudget budget() {
        return budget;
    }

    void set(String name, Object value) {
        values.put(name, value);
    }

    Object get(String name) {
        Object value = values.get(name);
        if (value != null) {
            return value;
        }
        return outer == null ? Value.Word.UNDEFINED : outer.get(name);
    }
}
