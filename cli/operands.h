// cli/operands.h - which words of the command line are models and which are documents.
//
// A MODEL is a folder with config.json, or a .safetensors file. Everything else that exists is a
// DOCUMENT, and so is "-" (standard input). Documents that the command's document_option names come
// behind the others.
#ifndef DELTOP_OPERANDS_H
#define DELTOP_OPERANDS_H

#include "cli/options.h"

// Fills o->model and o->document, in order. What does not exist, a folder without a config, and
// model files of other kinds are named (ERR_MISSING, ERR_INPUT); a number of models or documents
// that the command does not take is ERR_USAGE.
bool operands_split(options *o, err *e);

#endif
