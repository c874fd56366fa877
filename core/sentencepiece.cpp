// The shim of core/sentencepiece.h. No exception leaves it.
#include "core/sentencepiece.h"

#include <sentencepiece_processor.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

struct spm {
    sentencepiece::SentencePieceProcessor p;
};

extern "C" spm *spm_open(const char *model, size_t n, char *why, size_t size) {
    spm *m = nullptr;
    try {
        m = new spm;
        const auto status = m->p.LoadFromSerializedProto(absl::string_view(model, n));
        if (status.ok() && m->p.GetPieceSize() > 0)
            return m;
        std::snprintf(why, size, "%s", status.ok() ? "no pieces" : status.ToString().c_str());
    } catch (...) {
        std::snprintf(why, size, "the library failed");
    }
    delete m;
    return nullptr;
}

extern "C" void spm_close(spm *m) {
    delete m;
}

extern "C" int spm_size(const spm *m) {
    return m->p.GetPieceSize();
}

extern "C" int spm_bos(const spm *m) {
    return m->p.bos_id();
}

extern "C" int spm_eos(const spm *m) {
    return m->p.eos_id();
}

extern "C" const char *spm_piece(const spm *m, int id) {
    return m->p.IdToPiece(id).c_str();
}

extern "C" bool spm_is_control(const spm *m, int id) {
    return m->p.IsControl(id);
}

extern "C" bool spm_is_byte(const spm *m, int id) {
    return m->p.IsByte(id);
}

extern "C" bool spm_encode(const spm *m, const char *text, size_t n, int **ids, size_t *count) {
    try {
        std::vector<int> got;
        if (!m->p.Encode(absl::string_view(text, n), &got).ok())
            return false;
        *ids = static_cast<int *>(std::malloc(got.size() * sizeof **ids + 1));
        if (!*ids)
            return false;
        if (!got.empty())
            std::memcpy(*ids, got.data(), got.size() * sizeof **ids);
        *count = got.size();
        return true;
    } catch (...) {
        return false;
    }
}

extern "C" bool spm_decode(const spm *m, const int *ids, size_t count, char **text, size_t *n) {
    try {
        std::string got;
        if (!m->p.Decode(std::vector<int>(ids, ids + count), &got).ok())
            return false;
        *text = static_cast<char *>(std::malloc(got.size() + 1));
        if (!*text)
            return false;
        std::memcpy(*text, got.c_str(), got.size() + 1);
        *n = got.size();
        return true;
    } catch (...) {
        return false;
    }
}
