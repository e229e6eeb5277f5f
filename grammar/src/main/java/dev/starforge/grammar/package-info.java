/** Parses source files with tree-sitter, in a process of its own. */
@NullMarked
package dev.starforge.grammar;

import org.jspecify.annotations.NullMarked;
