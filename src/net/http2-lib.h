/* nghttp2, loaded when the first client speaks HTTP/2. */
#ifndef TN_NET_HTTP2_LIB_H
#define TN_NET_HTTP2_LIB_H

#include <nghttp2/nghttp2.h>

#include "base/error.h"

#define HTTP2_FUNCTIONS(X)                                       \
    X(nghttp2_option_del)                                        \
    X(nghttp2_option_new)                                        \
    X(nghttp2_option_set_no_auto_window_update)                  \
    X(nghttp2_session_callbacks_del)                             \
    X(nghttp2_session_callbacks_new)                             \
    X(nghttp2_session_callbacks_set_on_begin_headers_callback)   \
    X(nghttp2_session_callbacks_set_on_data_chunk_recv_callback) \
    X(nghttp2_session_callbacks_set_on_frame_recv_callback)      \
    X(nghttp2_session_callbacks_set_on_frame_send_callback)      \
    X(nghttp2_session_callbacks_set_on_header_callback)          \
    X(nghttp2_session_callbacks_set_on_stream_close_callback)    \
    X(nghttp2_session_consume)                                   \
    X(nghttp2_session_consume_connection)                        \
    X(nghttp2_session_del)                                       \
    X(nghttp2_session_get_last_proc_stream_id)                   \
    X(nghttp2_session_get_stream_user_data)                      \
    X(nghttp2_session_mem_recv)                                  \
    X(nghttp2_session_mem_send)                                  \
    X(nghttp2_session_resume_data)                               \
    X(nghttp2_session_server_new2)                               \
    X(nghttp2_session_set_local_window_size)                     \
    X(nghttp2_session_set_stream_user_data)                      \
    X(nghttp2_session_terminate_session)                         \
    X(nghttp2_session_want_read)                                 \
    X(nghttp2_session_want_write)                                \
    X(nghttp2_submit_goaway)                                     \
    X(nghttp2_submit_headers)                                    \
    X(nghttp2_submit_response)                                   \
    X(nghttp2_submit_rst_stream)                                 \
    X(nghttp2_submit_settings)                                   \
    X(nghttp2_submit_trailer)

struct http2_lib {
#define HTTP2_MEMBER(name) __typeof__(&name) name;
    HTTP2_FUNCTIONS(HTTP2_MEMBER)
#undef HTTP2_MEMBER
};

/* The functions; NULL with err (TN_E_UNSUPPORTED) when there is no nghttp2 here.  It stays loaded
 * until the process ends. */
const struct http2_lib *http2_lib(struct tn_error *err);

#endif
