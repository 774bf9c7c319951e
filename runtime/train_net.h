/* The models of dsgd-train: a chain of layers over one arena of parameters.
 *
 *     softmax  pixels - 10
 *     mlp      pixels - 128, ReLU - 10
 *     cnn      conv 5x5 to 16, ReLU, pool 2 - conv 5x5 to 32, ReLU, pool 2 -
 *              128, ReLU - 10; 215,370 parameters on 28 x 28 pixels
 *
 * Parameters and gradients are the caller's memory, laid out by the table of
 * train_net_tensors. */
#ifndef DSGD_TRAIN_NET_H
#define DSGD_TRAIN_NET_H

#include <stddef.h>
#include <stdint.h>

#include "dsgd_error.h"

enum train_model { TRAIN_SOFTMAX, TRAIN_MLP, TRAIN_CNN };

enum { TRAIN_CLASSES = 10 };

/* One row of the parameter table. */
struct train_tensor {
    char name[24];   /* "conv1.weight" */
    size_t shape[2]; /* weights [inputs][outputs], biases [1][outputs] */
    size_t offset;   /* floats from the start of the arena */
};

struct train_net;

/* Build a model and its work space.
 *   rows, cols  in   of an image; the cnn needs multiples of 4
 *   capacity    in   most images that one call below takes, >= 1
 *   net         out  NULL on error; frees with train_net_destroy
 * Errors: DSGD_E_USAGE (images the model can't take), DSGD_E_RANGE (sizes that
 * overflow), DSGD_E_NOMEM. */
enum dsgd_err train_net_create(enum train_model model, size_t rows, size_t cols,
                               size_t capacity, struct train_net **net,
                               struct dsgd_error *err);
void train_net_destroy(struct train_net *net);

size_t train_net_params(const struct train_net *net);
size_t train_net_capacity(const struct train_net *net);
const struct train_tensor *train_net_tensors(const struct train_net *net,
                                             size_t *count);

/* Draw parameters: weights uniform with the variance of He et al. 2015 before a
 * ReLU and of LeCun before the softmax, biases 0.  The same seed gives the same
 * bits on every machine.
 *   params  [train_net_params]  out */
void train_net_init(const struct train_net *net, uint64_t seed, float *params);

/* Where the caller puts the next images, [capacity][rows * cols]. */
float *train_net_input(struct train_net *net);

/* Gradient of the sum of the cross-entropies of the images in the input.
 *   params  [train_net_params]  in
 *   labels  [n]                 in, < TRAIN_CLASSES
 *   n                           in, 1..capacity
 *   grad    [train_net_params]  added to
 * Returns the sum of the losses.  Local, no allocation. */
double train_net_gradient(struct train_net *net, const float *params,
                          const uint8_t *labels, size_t n, float *grad);

/* Classify the images in the input.
 *   loss  out  added to: the sum of the losses
 * Returns how many are right.  Local, no allocation. */
size_t train_net_classify(struct train_net *net, const float *params,
                          const uint8_t *labels, size_t n, double *loss);

#endif
