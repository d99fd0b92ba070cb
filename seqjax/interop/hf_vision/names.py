"""What Hugging Face calls the parameters of its networks for images: see `hf_names`.

    theirs                                          ours
    projection.weight of patches [D, C, P, P]       patches/projection/kernel [P, P, C, D]
    position_embeddings [1, 1 + h w, D]             positions/prefix [1, D] and positions/table [h, w, D], one after another
    cls_token [1, 1, D], class_embedding [D]        cls [D]
    weights_in of a SwiGLU [2 F, D]                 feed_forward/in and feed_forward/gate, one after another
    convolution.weight [O, I, K, K]                 kernel [K, K, I, O]
    running_mean, running_var [C]                   mean, var, of the collection 'batch_stats'
    layer_scale1.lambda1 [D]                        attention_scale [D]; of layer_scale2: feed_forward_scale
"""

from seqjax.interop.hf_links import Link, attention, linear, norm, table


def vit(model):
    yield Link('embeddings.cls_token', ('cls',), ones=(0, 1))
    yield from _patches('embeddings.patch_embeddings.projection', 'patches/projection', bias=True)
    yield Link('embeddings.position_embeddings', ('positions/prefix', 'positions/table'), stacked=True, ones=(0,))
    for layer in range(model.depth):
        name, path = f'encoder.layer.{layer}', f'encoder/block_{layer}'
        yield from norm(f'{name}.layernorm_before', f'{path}/attention_norm', bias=True)
        yield from _self_attention(f'{name}.attention', f'{path}/attention')
        yield from norm(f'{name}.layernorm_after', f'{path}/feed_forward_norm', bias=True)
        yield from linear(f'{name}.intermediate.dense', f'{path}/feed_forward/in', bias=True)
        yield from linear(f'{name}.output.dense', f'{path}/feed_forward/out', bias=True)
    yield from norm('layernorm', 'encoder/norm', bias=True)
    if model.representation_size:
        yield from linear('pooler.dense', 'representation', bias=True, part='pooler')
    if model.outputs:
        yield from linear('classifier', 'output', bias=True, part='classifier')


def dinov2(model):
    yield Link('embeddings.cls_token', ('cls',), ones=(0, 1))
    if model.registers:
        yield Link('embeddings.register_tokens', ('registers',), ones=(0,))
    yield from _patches('embeddings.patch_embeddings.projection', 'patches/projection', bias=True)
    yield Link('embeddings.position_embeddings', ('positions/prefix', 'positions/table'), stacked=True, ones=(0,))
    for layer in range(model.depth):
        name, path = f'encoder.layer.{layer}', f'encoder/block_{layer}'
        yield from norm(f'{name}.norm1', f'{path}/attention_norm', bias=True)
        yield from _self_attention(f'{name}.attention', f'{path}/attention')
        yield Link(f'{name}.layer_scale1.lambda1', (f'{path}/attention_scale',))
        yield from norm(f'{name}.norm2', f'{path}/feed_forward_norm', bias=True)
        if model.gated:
            yield from linear(f'{name}.mlp.weights_in', f'{path}/feed_forward/in', f'{path}/feed_forward/gate', bias=True)
            yield from linear(f'{name}.mlp.weights_out', f'{path}/feed_forward/out', bias=True)
        else:
            yield from linear(f'{name}.mlp.fc1', f'{path}/feed_forward/in', bias=True)
            yield from linear(f'{name}.mlp.fc2', f'{path}/feed_forward/out', bias=True)
        yield Link(f'{name}.layer_scale2.lambda1', (f'{path}/feed_forward_scale',))
    yield from norm('layernorm', 'encoder/norm', bias=True)
    if model.outputs:
        yield from linear('classifier', 'output', bias=True, part='classifier')


def clip(model):
    yield Link('logit_scale', ('log_scale',))
    yield from table('text_model.embeddings.token_embedding', 'text/embedding')
    yield from table('text_model.embeddings.position_embedding', 'text/positions')
    yield from _tower('text_model.encoder', 'text/decoder', model.text_depth or model.depth)
    yield from norm('text_model.final_layer_norm', 'text/decoder/norm', bias=True)
    yield Link('vision_model.embeddings.class_embedding', ('image/cls',))
    yield from _patches('vision_model.embeddings.patch_embedding', 'image/patches/projection', bias=False)
    yield Link('vision_model.embeddings.position_embedding.weight', ('image/positions/prefix', 'image/positions/table'), stacked=True)
    yield from norm('vision_model.pre_layrnorm', 'image/embedding_norm', bias=True)
    yield from _tower('vision_model.encoder', 'image/encoder', model.depth)
    yield from norm('vision_model.post_layernorm', 'image/encoder/norm', bias=True)
    yield from linear('visual_projection', 'image_projection', bias=False)
    yield from linear('text_projection', 'text_projection', bias=False)


def resnet(model):
    yield from _convolution('embedder.embedder', 'stem_conv', 'stem_norm')
    before = model.width
    for stage, (units, channels) in enumerate(model.units):
        for number in range(units):
            name, path = f'encoder.stages.{stage}.layers.{number}', f'stage_{stage}/unit_{number}'
            strides = number == 0 and (stage > 0 or model.downsample_first_stage)
            if strides or before != channels:
                yield from _convolution(f'{name}.shortcut', f'{path}/shortcut', f'{path}/shortcut_norm')
            for layer in range(model.layers_of_unit):
                yield from _convolution(f'{name}.layer.{layer}', f'{path}/conv_{layer}', f'{path}/norm_{layer}')
            before = channels
    if model.outputs:
        yield from linear('classifier.1', 'output', bias=True, part='classifier')


def _convolution(name, convolution, after):
    yield Link(f'{name}.convolution.weight', (f'{convolution}/kernel',), order=(3, 2, 0, 1))
    yield from norm(f'{name}.normalization', after, bias=True)
    for theirs, ours in (('running_mean', 'mean'), ('running_var', 'var')):
        yield Link(f'{name}.normalization.{theirs}', (f'{after}/{ours}',))


def _tower(name, path, depth):
    for layer in range(depth):
        theirs, ours = f'{name}.layers.{layer}', f'{path}/block_{layer}'
        yield from norm(f'{theirs}.layer_norm1', f'{ours}/attention_norm', bias=True)
        yield from attention([f'{theirs}.self_attn.{part}_proj' for part in ('q', 'k', 'v', 'out')], f'{ours}/attention', bias=True)
        yield from norm(f'{theirs}.layer_norm2', f'{ours}/feed_forward_norm', bias=True)
        yield from linear(f'{theirs}.mlp.fc1', f'{ours}/feed_forward/in', bias=True)
        yield from linear(f'{theirs}.mlp.fc2', f'{ours}/feed_forward/out', bias=True)


def _self_attention(name, path):
    yield from attention([*(f'{name}.attention.{part}' for part in ('query', 'key', 'value')), f'{name}.output.dense'], path, bias=True)


def _patches(name, path, bias):
    yield Link(f'{name}.weight', (f'{path}/kernel',), order=(3, 2, 0, 1))
    if bias:
        yield Link(f'{name}.bias', (f'{path}/bias',))
